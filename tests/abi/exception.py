#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An exception out of a callback leaves a context that works. usage: exception.py ROOT FOLDER_OF_LIB
"""
import os
import shutil
import subprocess
import sys
import tempfile


def main():
    root, library = (os.path.abspath(argument) for argument in sys.argv[1:3])
    if not shutil.which('c++'):
        print('skipped: no C++ compiler (c++)')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, 'exception')
        subprocess.run(['c++', '-std=c++11', '-Wall', '-Wextra', '-Werror', '-I',
                        os.path.join(root, 'include'),
                        os.path.join(root, 'tests/abi/exception.cpp'), '-L', library, '-lripc',
                        '-Wl,-rpath,' + library, '-o', program], check=True)
        return subprocess.run([program], timeout=100).returncode


if __name__ == '__main__':
    sys.exit(main())
