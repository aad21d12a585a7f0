#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The binary interface as it was recorded: the size of each public struct, the offset of each
member, the value of each constant. A change here breaks programs that were built before.

usage: layout.py SOURCE_ROOT RECORD           compare
       layout.py --update SOURCE_ROOT RECORD  record anew, when the change is meant
"""
import difflib
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../scripts/lib'))
import csource


def program(header_text):
    lines = ['#include <ripc/call.h>', '#include <ripc/group.h>', '#include <ripc/keys.h>',
             '#include <ripc/list.h>', '#include <ripc/page.h>', '#include <stdio.h>',
             'int main(void) {']
    for struct, members in csource.structs(header_text):
        lines.append(f'printf("struct {struct} %zu\\n", sizeof(struct {struct}));')
        lines += [f'printf("\\t{member} %zu\\n", offsetof(struct {struct}, {member}));'
                  for member in members]
    for name in csource.enumerators(header_text):
        lines.append(f'printf("{name} %ld\\n", (long){name});')
    return '\n'.join(lines + ['return 0; }\n'])


def layout(root):
    source = program(csource.public_headers(root))
    include = os.path.join(root, 'include')
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, 'layout')
        subprocess.run(['cc', '-I', include, '-x', 'c', '-', '-o', binary],
                       input=source.encode(), check=True)
        return subprocess.run([binary], check=True, stdout=subprocess.PIPE).stdout.decode()


def main():
    arguments = sys.argv[1:]
    update = arguments[:1] == ['--update']
    root, record = arguments[1:] if update else arguments
    if sys.maxsize < 2**32:
        print('the record is for 64-bit machines: skipped')
        return 77
    now = layout(root)
    if update:
        with open(record, 'w') as f:
            f.write(now)
        return 0
    with open(record) as f:
        before = f.read()
    if now == before:
        return 0
    print(''.join(difflib.unified_diff(before.splitlines(True), now.splitlines(True),
                                       'recorded', 'now')))
    print('The binary interface has changed. If that is meant: tests/abi/layout.py --update '
          '. tests/abi/layout.txt, and say so in NEWS.md.')
    return 1


if __name__ == '__main__':
    sys.exit(main())
