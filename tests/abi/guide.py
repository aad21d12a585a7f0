#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Compiles each program that stands in docs/guide.md and runs each session there: what is typed behind
"$ ", command by command, by a shell. The output before the next command must be the lines on the
page, in any order, as several programs may print them. usage: guide.py SOURCE_ROOT LIBRARY_DIR
"""
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading

DEADLINE_S = 100
DONE = 'the command has returned'
FLAGS = ['-Wall', '-Wextra', '-Werror']


class Failure(Exception):
    """The page is wrong, or the library."""


def blocks(page, language):
    return re.findall(rf'^```{language}\n(.*?)^```$', page, re.S | re.M)


def write_all(page, folder):
    """Writes each block under the name in its first line. Returns the names."""
    names = []
    for program in blocks(page, 'c'):
        name = re.match(r'/\* (\w+\.[ch]): ', program)
        if not name:
            raise Failure(f'no name in the first line: {program[:80]}')
        names.append(name.group(1))
        with open(os.path.join(folder, names[-1]), 'w', encoding='utf-8') as f:
            f.write(program)
    return names


def compile_all(names, folder, root, libraries):
    for name in names:
        if name.endswith('.c'):
            subprocess.run(['cc', *FLAGS, name, '-o', name[:-2], '-I', f'{root}/include', '-L',
                            libraries, '-lripc', '-pthread'], cwd=folder, check=True)


def commands(session):
    """[(what is typed, the lines that follow)]"""
    found = []
    for line in session.splitlines():
        if line.startswith('$ '):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def with_errors(command):
    """Standard error of a program is compared, messages of the shell about its jobs are not."""
    return re.sub(r'( &)?$', r' 2>&1\1', command, count=1)


class Shell:
    def __init__(self, folder, libraries):
        self.process = subprocess.Popen(
            ['bash', '-m'], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env=dict(os.environ, LD_LIBRARY_PATH=libraries))
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip('\n'))

    def run(self, command, n_lines):
        """Returns what was printed by the time that it has returned and so many lines are there."""
        said, returned = [], False
        self.process.stdin.write(f'{with_errors(command)}\necho {DONE}\n')
        self.process.stdin.flush()
        while not returned or len(said) < n_lines:
            try:
                line = self.lines.get(timeout=DEADLINE_S)
            except queue.Empty:
                raise Failure(f'{command}: said only {said}') from None
            if line == DONE:
                returned = True
            else:
                said.append(line)
        return said

    def end(self):
        """Kills what was started; returns what was said that nobody has waited for."""
        self.process.stdin.write('kill -9 $(jobs -p)\nwait\n')
        self.process.stdin.close()
        self.process.wait()
        self.reader.join()
        return list(self.lines.queue)

    def kill(self):
        for group in {self.process.pid, *children(self.process.pid)}:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass


def children(pid):
    path = f'/proc/{pid}/task/{pid}/children'
    if not os.path.exists(path):
        return []
    with open(path, encoding='utf-8') as f:
        return [int(word) for word in f.read().split()]


def play(session, folder, libraries):
    shell = Shell(folder, libraries)
    try:
        for command, wanted in commands(session):
            said = shell.run(command, len(wanted))
            print(f'$ {command}', *said, sep='\n')
            if sorted(said) != sorted(wanted):
                raise Failure(f'{command}: said {said}, the page says {wanted}')
        rest = shell.end()
        if rest:
            raise Failure(f'after the session: {rest}')
    finally:
        shell.kill()
        shell.process.wait()


def main():
    root, libraries = map(os.path.abspath, sys.argv[1:])
    with open(os.path.join(root, 'docs/guide.md'), encoding='utf-8') as f:
        page = f.read()
    # Two runs of this test at once on one network must not meet.
    page = page.replace('"guide/', f'"guide {os.getpid()} {os.uname().nodename}/')
    sessions = blocks(page, 'console')
    with tempfile.TemporaryDirectory() as folder:
        names = write_all(page, folder)
        compile_all(names, folder, root, libraries)
        for session in sessions:
            play(session, folder, libraries)
    run = {word for session in sessions for word in re.findall(r'\./(\w+)', session)}
    idle = {name[:-2] for name in names if name.endswith('.c')} - run
    print(f'{len(names)} files, {len(sessions)} sessions')
    if idle or not sessions:
        raise Failure(f'programs that no session runs: {idle}')


if __name__ == '__main__':
    try:
        main()
    except (Failure, subprocess.CalledProcessError) as failure:
        sys.exit(str(failure))
