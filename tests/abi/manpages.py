#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Every public function has a man page that names it and gives its prototype and the errors that
the header lists for it; the structs' members and the options have their entries; every alias leads
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
# Where the members of a struct have entries.
PAGES = {'ripc_config': 'ripc_open', 'ripc_send': 'ripc_sendmsg', 'ripc_path': 'ripc_path_info',
         'ripc_stats': 'ripc_stats_get', 'ripc_request': 'ripc_call'}
# Where options are declared.
OPTION_LISTS = ['src/backends/options.c', 'src/backends/options.c',
                'src/backends/shm/share.c', 'src/backends/udp/udp.c',
                'src/backends/options.c', 'src/resolvers/inet.c',
                'src/core/group/stream.c']


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


def errors_of(header, function):
    """The errors that the comment before the function's prototype lists."""
    declared = re.search(rf'/\*((?:(?!\*/).)*)\*/\s*RIPC_API[^;/]*\b{function}\(', header, re.S)
    return re.findall(r'(?<=[\s*])-(E[A-Z0-9]+)\b', declared.group(1)) if declared else []


def members_missing(header):
    """Members of a struct that the page of whoever takes it has no entry for."""
    for struct, members in csource.structs(header):
        if struct not in PAGES:
            continue
        entries = ' '.join(re.findall(r'^\.It Va (.*)$', page_of(PAGES[struct]), re.M))
        for member in members:
            if member != 'size' and member not in re.split(r'[ ,]+', entries):
                yield f'{PAGES[struct]}: has no entry for {member} of struct {struct}'


def options_missing():
    """Options whose name, or the range of whose numbers, ripc_open(3) does not give."""
    source = ''.join(read(os.path.join(root, path)) for path in OPTION_LISTS)
    page = read(os.path.join(folder, 'ripc_open.3'))
    found = re.findall(r'^\t\{"([a-z0-9_.]+)", RIPC_(\w+), (\d+), (\d+),', source, re.M)
    if not found:
        yield 'no list of options found in ' + ', '.join(OPTION_LISTS)
    for name, kind, least, most in found:
        entry = re.search(rf'^\.It Li {re.escape(name)}=.*\n((?:(?!\.It |\.El).*\n)*)', page, re.M)
        if not entry:
            yield f'ripc_open: has no entry for option {name}'
        elif kind == 'NUMBER' and f'{least} to {most}' not in entry.group(0):
            yield f'ripc_open: does not say that option {name} goes from {least} to {most}'
        elif kind in ('SWITCH', 'THIRD') and not entry.group(0).startswith(
                f'.It Li {name}=on\nor\n.Li off :'):
            yield f'ripc_open: does not say that option {name} is on or off'
    for name in re.findall(r'^\.It Li (\w+\.\w+)=', page, re.M):
        if name not in [option[0] for option in found]:
            yield f'ripc_open: there is no option {name}'


def faults():
    header = csource.public_headers(root)
    for line in list(members_missing(header)) + list(options_missing()):
        yield line
    for function, n_parameters in csource.prototypes(header):
        page = page_of(function)
        if page is None:
            yield f'{function}: no man page'
        elif documented(page, function) != n_parameters:
            yield f'{function}: its page does not name it with its {n_parameters} parameters'
        for error in errors_of(header, function):
            if page is not None and not re.search(rf'\bFl {error}\b', page):
                yield f'{function}: its page does not speak of {error}'
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
