#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Plants a bug of tests/sim/mutants in a copy of the tree, and prints the files that it has changed.

A bug is a text: a line that says what goes wrong, then for each place "@ FUNCTION" and lines of its
body, those that go (-) and those that come instead (+), with others beside them (a blank) where
that is needed to find the place. FUNCTION is where it is, whatever file that is in; "@ FUNCTION
FILE.c" if several files have one of that name.

usage: plant.py TREE BUG
"""
import glob
import os
import re
import sys

import csource


def places(bug):
    """[(function, file or None, lines before, lines after)] of a bug's text."""
    found = []
    for line in bug.split('\n')[1:]:
        if line.startswith('@ '):
            function, _, name = line[2:].partition(' ')
            found.append((function, name or None, [], []))
        elif found and line[:1] in (' ', '-', '+'):
            if line[0] != '+':
                found[-1][2].append(line[1:])
            if line[0] != '-':
                found[-1][3].append(line[1:])
        elif line.strip():
            raise ValueError(f'"{line}" is neither "@ FUNCTION" nor a line of it')
    return found


def bodies(tree, function, name):
    """[(path, first line, number of lines)] of the functions of that name."""
    for path in glob.glob(os.path.join(tree, 'src/**', name or '*.[ch]'), recursive=True):
        with open(path) as f:
            text = f.read()
        for found in csource.functions(text):
            if found.name == function:
                yield path, found.line, found.lines


def plant(tree, function, name, before, after):
    where = list(bodies(tree, function, name))
    if len(where) != 1:
        raise ValueError(f'{len(where)} functions are called {function}: '
                         + ' '.join(path for path, _, _ in where))
    path, first, n = where[0]
    with open(path) as f:
        lines = f.read().split('\n')
    fits = [at for at in range(first, first + n - len(before) + 1)
            if lines[at:at + len(before)] == before]
    if len(fits) != 1:
        raise ValueError(f'{function} has these lines {len(fits)} times:\n' + '\n'.join(before))
    lines[fits[0]:fits[0] + len(before)] = after
    with open(path, 'w') as f:
        f.write('\n'.join(lines))
    return os.path.relpath(path, tree)


def main():
    if len(sys.argv) != 3:
        sys.exit(re.search(r'usage: .*', __doc__).group(0))
    tree, bug = sys.argv[1:]
    with open(bug) as f:
        text = f.read()
    try:
        found = places(text)
        if not found:
            raise ValueError('no "@ FUNCTION" in the patch')
        print(*{plant(tree, *place) for place in found})
    except ValueError as error:
        sys.exit(f'plant: {os.path.basename(bug)} does not fit the tree any more: {error}')


if __name__ == '__main__':
    main()
