#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Contents and metadata of packages: each page that README.md and the pages link to is
installed by the Debian packages; the version of Python that is required is the same wherever it
stands, and an older Python is told so and not asked for headers.
usage: packaged.py SOURCE_ROOT
       packaged.py --installed README.md      the links of installed pages
       packaged.py --metadata WHEEL SDIST     of the package of Python
"""
import glob
import os
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# Options that need a foreign library, or take time, are off where only Python matters.
SMALL = ['-Dpython=enabled', '-Dverbs=disabled', '-Drdmacm=disabled', '-Dofi=disabled',
         '-Dstore=disabled', '-Dkeys=disabled', '-Dtests=disabled', '-Dtools=false',
         '-Dexamples=false', '-Dbench=false', '-Dman=false']


def read(root, name):
    with open(os.path.join(root, name), encoding='utf-8') as file:
        return file.read()


# ---- pages -----------------------------------------------------------------------------------

def links_of(path):
    """The files that a page links to, relative to its folder."""
    with open(path, encoding='utf-8') as file:
        found = re.findall(r'\]\(([^)#\s]+)', file.read())
    return [link for link in found if '://' not in link]


def is_elsewhere(link):
    """Manual pages, which other packages install, and files of the source."""
    return 'man/' in link or link.startswith(('../', 'tests/'))


def installed(root):
    """The result of dh_installdocs for *.docs, by source file: of a folder all, as it is."""
    rules = read(root, 'debian/rules')
    left_out = re.findall(r'-X(\S+)', re.search(r'^\tdh_installdocs (.*)$', rules, re.M)[1])
    names = {}
    for line in read(root, 'debian/libripc-doc.docs').split():
        path = os.path.join(root, line)
        below = glob.glob(path + '/**', recursive=True) if os.path.isdir(path) else [path]
        folder = os.path.dirname(path)
        names.update({os.path.relpath(name, folder): name for name in below
                      if os.path.isfile(name) and not any(part in name for part in left_out)})
    return names


def pages_lacking(root):
    names = installed(root)
    for page in sorted(name for name in names if name.endswith('.md')):
        folder = os.path.dirname(page)
        for link in links_of(names[page]):
            name = os.path.normpath(os.path.join(folder, link))
            if not is_elsewhere(link) and name not in names:
                yield f'{page}: {link} is not in debian/libripc-doc.docs'
    manuals = read(root, 'docs/meson.build')
    for link in links_of(os.path.join(root, 'README.md')):
        if 'man/' in link and f"'{os.path.relpath(link, 'docs')}'" not in manuals:
            yield f'README.md: {link} is not in docs/meson.build'


def check_installed(page):
    """All links of an installed page, and of the pages that it links to, lead somewhere."""
    seen, todo, wrong = set(), [page], []
    while todo:
        at = todo.pop()
        seen.add(at)
        for link in links_of(at):
            name = os.path.normpath(os.path.join(os.path.dirname(at), link))
            if is_elsewhere(link):
                continue
            if not os.path.exists(name):
                wrong.append(f'{at}: {link} is not installed')
            elif name.endswith('.md') and name not in seen:
                todo.append(name)
    print(f'{len(seen)} pages, {len(wrong)} faults', *wrong, sep='\n')
    return 1 if wrong or len(seen) < 10 else 0


# ---- Python ----------------------------------------------------------------------------------

def versions_differ(root):
    wanted = re.search(r"^requires-python = '>= (3\.\d+)'$", read(root, 'pyproject.toml'), re.M)
    if not wanted:
        yield 'pyproject.toml: no requires-python'
        return
    for name, pattern in (('bindings/python/meson.build', r"version_compare\('>= (3\.\d+)'\)"),
                          ('bindings/python/meson.build', r'requires Python >= (3\.\d+)'),
                          ('debian/control', r'^X-Python3-Version: >= (3\.\d+)$'),
                          ('debian/control', r'python3-dev \(>= (3\.\d+)\)'),
                          ('docs/python.md', r'for Python (3\.\d+) and later')):
        found = re.search(pattern, read(root, name), re.M)
        if not found or found[1] != wanted[1]:
            yield f'{name}: {found and found[0]}, but pyproject.toml has {wanted[1]}'


def refusal_unclear(root):
    """Meson with a Python that calls itself 3.10, and whose headers nobody has."""
    with tempfile.TemporaryDirectory() as folder:
        old = os.path.join(folder, 'python3.10')
        with open(old, 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\n{sys.executable} "$@" | '
                       'sed -E \'s/"version": "3\\.[0-9]+"/"version": "3.10"/\'\n')
        os.chmod(old, os.stat(old).st_mode | stat.S_IXUSR)
        machine = os.path.join(folder, 'machine')
        with open(machine, 'w', encoding='utf-8') as file:
            file.write(f"[binaries]\npython = '{old}'\n")
        ran = subprocess.run(['meson', 'setup', '--native-file', machine, *SMALL,
                              os.path.join(folder, 'build'), root], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)
    error = [line for line in ran.stdout.split('\n') if 'ERROR' in line]
    if ran.returncode == 0 or 'requires Python >= 3.11' not in ''.join(error) or \
            'is Python 3.10' not in ''.join(error):
        yield f'Meson with Python 3.10 says, with exit status {ran.returncode}: {error}'


def check_metadata(wheel, sdist):
    """pip goes by this: of an index it takes no version that requires a newer Python."""
    with zipfile.ZipFile(wheel) as file:
        texts = [file.read(name).decode() for name in file.namelist()
                 if name.endswith('.dist-info/METADATA')]
    with tarfile.open(sdist) as file:
        texts += [file.extractfile(name).read().decode() for name in file.getnames()
                  if re.fullmatch('[^/]*/PKG-INFO', name)]
    required = [re.findall(r'^Requires-Python: *(.*?) *$', text, re.M) for text in texts]
    print('Requires-Python:', required)
    return 0 if required in ([['>=3.11']] * 2, [['>= 3.11']] * 2) else 1


def main():
    if sys.argv[1] == '--metadata':
        return check_metadata(*sys.argv[2:])
    if sys.argv[1] == '--installed':
        return check_installed(sys.argv[2])
    root = os.path.abspath(sys.argv[1])
    wrong = [*pages_lacking(root), *versions_differ(root), *refusal_unclear(root)]
    print(f'{len(installed(root))} files of documents, {len(wrong)} faults', *wrong, sep='\n')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
