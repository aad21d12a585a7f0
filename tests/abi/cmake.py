#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The installed library in somebody else's CMake project: found, linked, run; another version
is refused. usage: cmake.py BUILD_DIR
"""
import os
import shutil
import subprocess
import sys
import tempfile

PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'cmake')


def run(*command, fails=False):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if (done.returncode != 0) != fails:
        sys.exit(f'{" ".join(command)}: exit status {done.returncode}\n{done.stdout}')
    return done.stdout


def project_for(version, folder):
    """A copy of the project that asks for another version."""
    copy = os.path.join(folder, 'wants-' + version)
    shutil.copytree(PROJECT, os.path.join(copy, 'cmake'))
    shutil.copy(os.path.join(PROJECT, '../hello.c'), copy)
    lists = os.path.join(copy, 'cmake/CMakeLists.txt')
    with open(lists) as f:
        text = f.read()
    with open(lists, 'w') as f:
        f.write(text.replace('libripc 0.1 ', f'libripc {version} '))
    return os.path.join(copy, 'cmake')


def main():
    if not shutil.which('cmake'):
        print('skipped: there is no cmake (scripts/install test)')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        run('meson', 'install', '-C', sys.argv[1], '--no-rebuild', '--destdir', folder)
        prefix = folder + '/usr/local'
        configure = ['cmake', f'-DCMAKE_PREFIX_PATH={prefix}', '-S']
        build = os.path.join(folder, 'build')
        run(*configure, PROJECT, '-B', build)
        run('cmake', '--build', build)
        run(os.path.join(build, 'hello'))
        for version in ('0.2', '1.0', '0.1.99'):
            said = run(*configure, project_for(version, folder), '-B', build + version, fails=True)
            if 'compatible with requested version' not in ' '.join(said.split()):
                sys.exit(f'version {version}: {said}')
    print('found, linked and run; other versions are refused')
    return 0


if __name__ == '__main__':
    sys.exit(main())
