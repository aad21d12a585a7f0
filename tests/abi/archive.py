#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The static library: no name of it can clash with one of the program that links it, nor is anything
in it of the place or the time of building. usage: archive.py SOURCE_ROOT LIBRIPC_A
"""
import os
import re
import subprocess
import sys


def faults(root, archive):
    names = subprocess.run(['nm', '-g', '--defined-only', archive], stdout=subprocess.PIPE,
                           check=True).stdout.decode()
    names = re.findall(r'^[0-9a-f]+ \w (\S+)$', names, re.M)
    if 'ripc_open' not in names:
        yield f'does not define ripc_open, but {names}'
    for name in names:
        if not re.match(r'ripc_[a-z]', name):
            yield f'shows {name} to others'
    with open(archive, 'rb') as f:
        contents = f.read()
    # With -g the compiler tells the debugger where the sources are.
    sections = subprocess.run(['readelf', '-SW', archive], stdout=subprocess.PIPE,
                              check=True).stdout.decode()
    if '.debug_info' not in sections and os.fsencode(root) in contents:
        yield f'has the path {root} in it'
    if '.gnu.lto_' in sections:
        yield 'has what is only for optimizing the whole program'
    header = contents[8:68].split()
    if header[1:4] != [b'0', b'0', b'0']:
        yield f'has a time or an owner: {header}'


def main():
    found = list(faults(os.path.abspath(sys.argv[1]), sys.argv[2]))
    print('\n'.join(f'{sys.argv[2]}: {fault}' for fault in found) or 'nothing to complain about')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
