#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Every public function has a man page that names it and gives its prototype, every alias leads
to a page, every page is installed, and mandoc finds no fault. usage: manpages.py SOURCE_ROOT
"""
import os
import re
import shutil
import subprocess
import sys

root = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(root, 'scripts/lib'))
import csource

folder = os.path.join(root, 'docs/man')


def read(path):
    with open(path) as f:
        return f.read()


def page_of(function):
    """The text of the page that a reader of "man function" sees, or None."""
    path = os.path.join(folder, function + '.3')
    if not os.path.exists(path):
        return None
    alias = re.match(r'\.so man3/(\S+)\n$', read(path))
    if not alias:
        return read(path)
    path = os.path.join(folder, alias.group(1))
    return read(path) if os.path.exists(path) else None


def documented(page, function):
    """How many parameters the page's synopsis gives the function, or None."""
    named = re.search(rf'^\.Nm {function}\b', page, re.M)
    block = re.search(rf'^\.Fo {function}\n((?:\.Fa .*\n)*)\.Fc', page, re.M)
    line = re.search(rf'^\.Fn {function} (.*)$', page, re.M)
    if not named or not (block or line):
        return None
    if block:
        return block.group(1).count('.Fa ')
    return len(re.findall(r'"[^"]*"', line.group(1)))


def faults():
    header = read(os.path.join(root, 'include/ripc/ripc.h'))
    for function, n_parameters in csource.prototypes(header):
        page = page_of(function)
        if page is None:
            yield f'{function}: no man page'
        elif documented(page, function) != n_parameters:
            yield f'{function}: its page does not name it with its {n_parameters} parameters'
    installed = read(os.path.join(root, 'docs/meson.build'))
    for name in sorted(os.listdir(folder)):
        if f"'man/{name}'" not in installed:
            yield f'{name}: is not installed (docs/meson.build)'
        for line in lint(os.path.join(folder, name)):
            yield line


def lint(path):
    if not shutil.which('mandoc') or read(path).startswith('.so '):
        return []
    return subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning', path],
                          stdout=subprocess.PIPE).stdout.decode().splitlines()


def main():
    found = list(faults())
    for line in found:
        print(line)
    if not shutil.which('mandoc'):
        print('mandoc is missing: the pages were not checked for faults of form')
    print(f'{len(os.listdir(folder))} pages, {len(found)} faults')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
