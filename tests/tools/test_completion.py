#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Completion as a user has it: a real bash at a terminal, into which words and the tab key are typed.
usage: test_completion.py SCRIPT BUILD_DIR
"""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

MARK = '<prompt>'
PATIENCE_S = 60


class Shell:
    """An interactive bash that has read the script, with the programs in its path."""

    def __init__(self, script, folders):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(PATH=':'.join([*folders, os.environ['PATH']]), PS1=MARK, TERM='dumb',
                              HISTFILE='/dev/null', INPUTRC='/dev/null')
            os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
        self.wait_for(MARK)
        self.say("bind 'set enable-bracketed-paste off'; bind 'set completion-query-items 0'; "
                 f"bind 'set page-completions off'; source {script}\r")

    def wait_for(self, text):
        heard, until = '', time.monotonic() + PATIENCE_S
        while text not in heard:
            ready = select.select([self.terminal], [], [], max(0, until - time.monotonic()))[0]
            if not ready:
                sys.exit(f'the shell says only {heard!r}, not {text!r}')
            heard += os.read(self.terminal, 65536).decode('utf-8', 'replace')
        return heard

    def say(self, text):
        os.write(self.terminal, text.encode())
        return self.wait_for(MARK)

    def line_after_tab(self, typed):
        """The text behind the prompt when one word fits."""
        os.write(self.terminal, (typed + '\t').encode())
        os.write(self.terminal, b'\x01echo "\x05"\r')  # to the beginning, echo ", to the end
        return self.wait_for('\n' + MARK).split('\n')[-2].strip()

    def words(self, typed):
        """The words that two tabs show."""
        os.write(self.terminal, (typed + '\t\t').encode())
        shown = self.wait_for(MARK)
        os.write(self.terminal, b'\x15\r')  # throws the line away
        self.wait_for('\n' + MARK)
        return set(shown.split(MARK)[0].replace('\a', '').split()) - set(typed.split())

    def end(self):
        os.close(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def expect(what, condition, seen=''):
    if not condition:
        sys.exit(f'wrong: {what}: {seen}')
    print(what)


def options_of(program, *arguments):
    said = subprocess.run([program, *arguments, '--help'], stdout=subprocess.PIPE, text=True).stdout
    return set(re.findall(r'--[a-z][a-z-]+', said))


def check(shell):
    commands = {'doctor', 'ls', 'ping', 'top', 'metrics', 'id', 'key'}
    expect('ripc: its commands', commands <= shell.words('ripc '))
    line = shell.line_after_tab('ripc do')
    expect(f'one command fits: {line}', line == 'ripc doctor')
    for command in sorted(commands):
        options = options_of('ripc', command) - {'--help'}
        shown = shell.words(f'ripc {command} --') if len(options) > 1 else \
            {shell.line_after_tab(f'ripc {command} --').split()[-1]}
        expect(f'ripc {command}: its options: {options}', options and options <= shown, shown)
    keys = shell.words('ripc key ')
    expect(f'ripc key: what it does: {keys}', {'new', 'show', 'grant', 'revoke', 'rotate'} <= keys)
    steps = shell.words('ripc key rotate ')
    expect(f'ripc key rotate: its steps: {steps}', {'begin', 'use', 'end'} == steps)
    line = shell.line_after_tab('ripc key show /etc/host')
    expect(f'ripc key show: files: {line}', line.startswith('ripc key show /etc/host'))
    tests = {'latency', 'bandwidth', 'oneway', 'idle-gap'}
    expect('ripc-bench: its tests', tests <= shell.words('ripc-bench '))
    expect('ripc-bench: its options', options_of('ripc-bench') <= shell.words('ripc-bench rate --'))
    peers = shell.words('ripc-bench latency --vs ')
    expect('ripc-bench: its peers', {'tcp', 'udp', 'zmq', 'none'} <= peers and not peers & tests)
    expect('fileget: its options', options_of('fileget') <= shell.words('fileget --'))
    expect('fileserver: its options', options_of('fileserver') <= shell.words('fileserver --'))
    line = shell.line_after_tab('fileserver /etc/host')
    expect(f'file names for other arguments: {line}', line.startswith('fileserver /etc/host'))


def main():
    script, build = sys.argv[1:]
    if not shutil.which('bash'):
        print('skipped: there is no bash')
        return 77
    folders = [os.path.join(build, name) for name in ('tools', 'bench', 'examples')]
    os.environ['PATH'] = ':'.join([*folders, os.environ['PATH']])
    shell = Shell(script, folders)
    try:
        check(shell)
    finally:
        shell.end()
    return 0


if __name__ == '__main__':
    sys.exit(main())
