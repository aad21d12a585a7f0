#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Structs of the public interface can grow. The library is built once more with headers in which each
of them has one field more; then programs of either headers run with either library (growth.c).
usage: growth.py SOURCE_ROOT BUILD_DIR LIBRARY SOURCE...
"""
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '../../scripts/lib'))
import csource

# Structs that only the library makes, or whose size is a function's argument.
GROW_TOO = ['ripc_msg', 'ripc_finding', 'ripc_listing', 'ripc_holder', 'ripc_delivery']
# Structs that stay as long as they are. Those of the page have a version (ripc/page.h).
FIXED = ['ripc_buffer', 'ripc_counts', 'ripc_page', 'ripc_page_service', 'ripc_page_partner',
         'ripc_page_member']


def growable(root):
    """The structs that grow. Each struct of the headers must be known here, or have a size."""
    with open(os.path.join(HERE, 'growth.c')) as f:
        program = f.read()
    found = []
    for struct, members in csource.structs(csource.public_headers(root)):
        if struct in FIXED:
            continue
        if members[0] != 'size' and struct not in GROW_TOO:
            sys.exit(f'{struct} has no size: say in FIXED or GROW_TOO whether it grows')
        if not re.search(rf'\b{struct}\b', program):
            sys.exit(f'growth.c does not use {struct}')
        found.append(struct)
    return found


def write_grown(root, folder, structs):
    """Copies the headers, with one field more in each of the structs. Returns in how many."""
    source, n = os.path.join(root, 'include/ripc'), 0
    os.makedirs(os.path.join(folder, 'ripc'))
    for name in sorted(os.listdir(source)):
        with open(os.path.join(source, name)) as f:
            text = f.read()
        text, more = re.subn(rf'(\bstruct (?:{"|".join(structs)}) \{{[^}}]*)\}};',
                             r'\1\tuint64_t grown;\n};', text)
        n += more
        with open(os.path.join(folder, 'ripc', name), 'w') as f:
            f.write(text)
    return n


def commands(build, root, include, sources, objects):
    """How the build compiles the library's sources, but with these headers, and quickly."""
    with open(os.path.join(build, 'compile_commands.json')) as f:
        entries = json.load(f)
    wanted = {os.path.realpath(source) for source in sources}
    headers, found = os.path.join(root, 'include'), {}
    for entry in entries:
        file = os.path.realpath(os.path.join(build, entry['file']))
        of_shared = re.match(r'src/libripc\.so[^/]*\.p/', entry['output'])
        if not of_shared and (file not in wanted or 'libripc-internal' not in entry['output']):
            continue
        words = shlex.split(entry['command'])
        for option in ('-MQ', '-MF', '-o', '-c'):
            if option in words:
                del words[words.index(option):words.index(option) + 2]
        words = [word for word in words if not re.match(r'-(O|g|flto|ffat|MD|Werror)', word) and
                 not (word.startswith('-I') and
                      os.path.realpath(os.path.join(build, word[2:])) == headers)]
        target = os.path.join(objects, entry['output'].replace('/', '_'))
        found[target] = words + ['-I' + include, '-O0', '-c', file, '-o', target]
    return found


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, ' '.join(command) + '\n' + done.stdout.decode()


def run_all(calls, folder):
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for failed, said in pool.map(lambda call: run(call, folder), calls):
            if failed:
                sys.exit(said)


def main():
    root, build, library = (os.path.abspath(argument) for argument in sys.argv[1:4])
    # Always in the same place, so that a cache of compilers knows it again.
    folder = os.path.join(build, 'tests/abi/growth')
    shutil.rmtree(folder, ignore_errors=True)
    include, grown = os.path.join(folder, 'include'), os.path.join(folder, 'grown')
    os.makedirs(grown)
    structs = growable(root)
    if write_grown(root, include, structs) != len(structs):
        sys.exit('not every struct was found in the headers')
    calls = commands(build, root, include, sys.argv[4:], grown)
    run_all(calls.values(), build)
    run_all([['cc', '-shared', '-pthread', *calls, '-Wl,-soname,libripc.so.0', '-ldl',
              '-Wl,--version-script=' + os.path.join(root, 'src/ripc.map'),
              '-o', os.path.join(grown, 'libripc.so.0')]], build)
    newer = os.path.join(folder, 'newer')
    older = os.path.join(folder, 'older')
    source = os.path.join(HERE, 'growth.c')
    run_all([['cc', '-DGROWN', '-Wall', '-Werror', '-I', include, source, library, '-o', newer],
             ['cc', '-Wall', '-Werror', '-I', os.path.join(root, 'include'), source, library,
              '-o', older]], build)
    failed = 0
    for program in (older, newer):
        for where, knows in ((os.path.dirname(library), '0'), (grown, '1')):
            done = subprocess.run([program, knows], env={**os.environ, 'LD_LIBRARY_PATH': where})
            pair = f'{os.path.basename(program)} program, {("older", "newer")[int(knows)]} library'
            print(f'{pair}: {"fails" if done.returncode else "works"}')
            failed += done.returncode != 0
    print(f'{len(structs)} structs, {len(calls)} objects, {failed} failures')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
