#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
"ripc key" as people use it: all its commands are in each help text and in the manual; a wrong
word is named, and steps that are repeated do no harm.
usage: key.py TOOL ROOT
"""
import os
import re
import subprocess
import sys
import tempfile

TOOL, ROOT = sys.argv[1:]
COMMANDS = {'new', 'show', 'grant', 'revoke', 'rotate'}


def ripc(status, *arguments):
    """The output: standard output, then standard error."""
    ran = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         universal_newlines=True, timeout=60)
    if ran.returncode != status:
        sys.exit(f'ripc {arguments}: exit status {ran.returncode}, not {status}: {ran.stdout}')
    return ran.stdout


def check(holds, what):
    if not holds:
        sys.exit(what)


def texts():
    with open(os.path.join(ROOT, 'docs', 'man', 'ripc.1'), encoding='utf-8') as stream:
        synopsis = stream.read().split('.Sh DESCRIPTION')[0]
    check(set(re.findall(r'^\.Cm key (\w+)', synopsis, re.M)) == COMMANDS, 'ripc(1), SYNOPSIS')
    check(set(re.findall(r'ripc key (\w+) ', ripc(0, 'key', '--help'))) >= COMMANDS, 'key --help')
    words = re.search(r'ripc key ([\w|]+)', ripc(0, '--help')).group(1)
    check(set(words.split('|')) == COMMANDS, 'ripc --help')


def times(folder, key):
    for wrong in ('soon', '30', '30m', '-1d', '0d', '99999d', '1dd', ''):
        said = ripc(2, 'key', 'grant', '--be', '*', '--for', wrong, '--dir', folder, key)
        check(f'"{wrong}"' in said and '30d' in said and '600s' in said, said)
        check('usage' not in said, said)
    for right in ('30d', '12h', '600s'):
        ripc(0, 'key', 'grant', '--be', '*', '--for', right, '--dir', folder, key)


def rotation(folder):
    for step, status, word in (('begin', 0, 'rotation: begun'), ('end', 1, 'rotation: begun'),
                               ('use', 0, 'rotation: in use'), ('use', 0, 'rotation: in use')):
        said = ripc(status, 'key', 'rotate', step, folder)
        check(word in ripc(0, 'key', 'show', folder), f'after {step}: {said}')
    check('already' in said, said)
    ripc(0, 'key', 'rotate', 'end', folder)
    check('rotation' not in ripc(0, 'key', 'show', folder), 'after the end')


def main():
    texts()
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, 'keys')
        ripc(0, 'key', 'new', '--authority', folder)
        with open(os.path.join(folder, 'public'), encoding='ascii') as stream:
            key = stream.read().strip()
        times(folder, key)
        rotation(folder)


if __name__ == '__main__':
    main()
