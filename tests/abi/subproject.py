#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
libripc as a subproject of somebody else's Meson project: configured, built, run.
usage: subproject.py SOURCE_ROOT
"""
import os
import shutil
import subprocess
import sys
import tempfile

SOURCES = ['include', 'src', 'tools', 'examples', 'bench', 'docs', 'scripts', 'tests',
           'meson.build', 'meson_options.txt']


def main():
    root = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        project, build = os.path.join(folder, 'project'), os.path.join(folder, 'build')
        shutil.copytree(os.path.join(root, 'tests/abi/subproject'), project)
        shutil.copy(os.path.join(root, 'tests/abi/hello.c'), project)
        copy = os.path.join(project, 'subprojects/libripc')
        os.makedirs(copy)
        for name in SOURCES:
            source = os.path.join(root, name)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(
                source, os.path.join(copy, name))
        options = ['--fatal-meson-warnings', '-Dwerror=true', '-Dlibripc:werror=true',
                   '--force-fallback-for=libripc']
        for command in (['meson', 'setup', build, project, *options],
                        ['ninja', '-C', build, 'hello'], [os.path.join(build, 'hello')]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                print(f'{" ".join(command)}: {done.returncode}\n{done.stdout.decode()}')
                return 1
    print('configured, built and run')
    return 0


if __name__ == '__main__':
    sys.exit(main())
