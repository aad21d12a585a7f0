#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Every public function has a man page with its prototype and the errors that the header lists for it;
every public struct is on one page, with all its members; the options have their entries; every page
is installed, the examples compile, and mandoc finds no fault. scripts/manual says in words which
docstring it cannot read. usage: manpages.py SOURCE_ROOT FOLDER_OF_GENERATED_PAGES
"""
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

root = os.path.abspath(sys.argv[1])
generated = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(root, 'scripts/lib'))
import csource

folder = os.path.join(root, 'docs/man')
# Where options are declared.
OPTION_LISTS = ['src/backends/options.c', 'src/backends/shm/share.c', 'src/backends/udp/udp.c',
                'src/resolvers/inet.c', 'src/core/group/mcast_out.c']
# Faults of docstrings: header, text, the text in its place, words of the message.
PLANTED = [
    ('ripc.h', '/* Returns the ID of a service. */\n', '', 'ripc_service_id() has no docstring'),
    ('ripc.h', 'Returns the ID of a', 'The ID of a', 'ripc_service_id(): begins with no verb'),
    ('call.h', '  watched already   ', '', 'ripc_watch(): "-EEXIST-ESHUTDOWN  the service is'),
    ('call.h', ' *  -EEXIST  watched', ' *  EEXIST  watched', 'is neither text nor an error'),
    ('call.h', 'Never waits.\n *  -EEXIST', 'ripc_wait() waits.\n *  -EEXIST',
     'there is no public function ripc_wait()'),
    ('ripc.h', 'ripc_service_id(', 'ripc_service_number(', 'declares ripc_service_id'),
    ('ripc.h', '/* Returns the ID of a', '/* Ends. */\nRIPC_API int ripc_end(void);\n'
     '/* Returns the ID of a', 'ripc_end has no page'),
]


def read(path):
    with open(path) as f:
        return f.read()


def page_of(function):
    """The text of the page that a reader of "man function" sees, or None."""
    path = os.path.join(generated, function + '.3')
    if not os.path.exists(path):
        return None
    alias = re.match(r'\.so man3/(.+)\.3\n$', read(path))
    return page_of(alias.group(1)) if alias else read(path)


def documented(page, function):
    """How many parameters the page's synopsis gives the function, or None."""
    named = re.search(rf'^\.Nm {function}\b', page, re.M)
    block = re.search(rf'^\.Fo {function}\n((?:\.Fa .*\n)*)\.Fc', page, re.M)
    if not named or not block:
        return None
    return block.group(1).replace('.Fa "void"', '').count('.Fa ')


def errors_of(header, function):
    """The errors that the comment before the function's prototype lists."""
    declared = re.search(rf'/\*((?:(?!\*/).)*)\*/\s*RIPC_API[^;/]*\b{function}\(', header, re.S)
    return re.findall(r'(?<=[\s*])-(E[A-Z0-9]+)\b', declared.group(1)) if declared else []


def members_missing(header):
    """Structs that no page shows, and members that the page of a struct lacks."""
    pages = [read(os.path.join(generated, name)) for name in os.listdir(generated)
             if name.endswith('.3')]
    for struct, members in csource.structs(header):
        shown = [page for page in pages if f'\nstruct {struct} {{\n' in page]
        if len(shown) != 1 and not struct.startswith('ripc_page'):
            yield f'struct {struct} is on {len(shown)} pages'
        for member in members if shown else []:
            if not re.search(rf'\b{member}\b', shown[0]):
                yield f'the page of struct {struct} lacks {member}'


def options_missing():
    """Options whose name, or the range of whose numbers, ripc_options(7) does not give."""
    source = ''.join(read(os.path.join(root, path)) for path in OPTION_LISTS)
    page = read(os.path.join(folder, 'ripc_options.7'))
    found = re.findall(r'^\t\{"([a-z0-9_.]+)", RIPC_(\w+), (\d+), (\d+),', source, re.M)
    if not found:
        yield 'no list of options found in ' + ', '.join(OPTION_LISTS)
    for name, kind, least, most in found:
        entry = re.search(rf'^\.It Li {re.escape(name)}=.*\n((?:(?!\.It |\.El).*\n)*)', page, re.M)
        if not entry:
            yield f'ripc_options: has no entry for option {name}'
        elif kind == 'NUMBER' and f'{least} to {most}' not in entry.group(0):
            yield f'ripc_options: does not say that option {name} goes from {least} to {most}'
        elif kind in ('SWITCH', 'THIRD') and not entry.group(0).startswith(
                f'.It Li {name}=on\nor\n.Li off :'):
            yield f'ripc_options: does not say that option {name} is on or off'
    for name in re.findall(r'^\.It Li (\w+\.\w+)=', page, re.M):
        if name not in [option[0] for option in found]:
            yield f'ripc_options: there is no option {name}'


def functions_missing(header):
    for function, n_parameters in csource.prototypes(header):
        page = page_of(function)
        if page is None:
            yield f'{function}: no man page'
        elif documented(page, function) != n_parameters:
            yield f'{function}: its page does not name it with its {n_parameters} parameters'
        for error in errors_of(header, function):
            if page is not None and not re.search(rf'-{error}\b', page):
                yield f'{function}: its page does not speak of {error}'


def not_installed():
    """Pages that docs/meson.build does not install, and texts that no page has."""
    installed = read(os.path.join(root, 'docs/meson.build'))
    for name in sorted(os.listdir(folder)):
        if re.search(r'\.\d$', name) and f"'man/{name}'" not in installed:
            yield f'{name}: is not installed (docs/meson.build)'
    pages = re.findall(r'^\[(\w+)\]', read(os.path.join(folder, 'pages.ini')), re.M)
    for kind in ('notes', 'examples'):
        for name in sorted(os.listdir(os.path.join(folder, kind))):
            if re.sub(r'\.c$', '', name) not in pages:
                yield f'docs/man/{kind}/{name}: belongs to no page'


def lint():
    paths = [os.path.join(place, name) for place in (folder, generated)
             for name in sorted(os.listdir(place)) if re.search(r'\.\d$', name)]
    paths = [path for path in paths if not read(path).startswith('.so ')]
    if shutil.which('mandoc'):
        yield from subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning', *paths],
                                  stdout=subprocess.PIPE).stdout.decode().splitlines()
    else:
        print('mandoc is missing: the pages were not checked for faults of form')


def not_compiled():
    examples = os.path.join(folder, 'examples')
    for name in sorted(os.listdir(examples)):
        done = subprocess.run(['cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
                               '-I', os.path.join(root, 'include'), os.path.join(examples, name)],
                              stderr=subprocess.PIPE)
        yield from done.stderr.decode().splitlines()


def words_of(manual, include):
    """The words with which scripts/manual refuses headers, or None."""
    try:
        manual.Manual(include).files()
    except (manual.docstring.Unreadable, manual.mdoc.Unknown) as fault:
        return str(fault)
    return None


def wrong_words():
    """Planted faults that scripts/manual does not find."""
    loader = importlib.machinery.SourceFileLoader('manual', os.path.join(root, 'scripts/manual'))
    manual = importlib.util.module_from_spec(importlib.util.spec_from_loader('manual', loader))
    loader.exec_module(manual)
    for header, before, after, expected in PLANTED:
        with tempfile.TemporaryDirectory() as include:
            shutil.copytree(os.path.join(root, 'include/ripc'), include, dirs_exist_ok=True)
            text = read(os.path.join(include, header))
            with open(os.path.join(include, header), 'w') as f:
                f.write(text.replace(before, after, 1))
            found = words_of(manual, include)
        if before not in text or expected not in str(found):
            yield f'scripts/manual does not say "{expected}", but: {found}'


def faults():
    header = csource.public_headers(root)
    yield from functions_missing(header)
    yield from members_missing(header)
    yield from options_missing()
    yield from not_installed()
    yield from lint()
    yield from not_compiled()
    yield from wrong_words()


def main():
    if not os.path.exists(os.path.join(generated, 'ripc_open.3')):
        print('the pages were not built (-Dman=false): skipped')
        return 77
    found = list(faults())
    for line in found:
        print(line)
    print(f'{len(found)} faults')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
