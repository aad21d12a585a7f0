#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The version is the same wherever it stands. usage: version.py SOURCE_ROOT
"""
import os
import re
import sys

HEADER = (r'RIPC_VERSION_MAJOR (\d+)\n#define RIPC_VERSION_MINOR (\d+)\n'
          r'#define RIPC_VERSION_PATCH (\d+)')
PLACES = [('meson.build', r"\tversion: '([^']*)'"),
          ('include/ripc/ripc.h', HEADER),
          ('debian/changelog', r'^libripc \(([^)-]*)-\d+\)'),
          ('NEWS.md', r'^## (\d+\.\d+\.\d+) \((?:not released yet|\d{4}-\d\d-\d\d)\)$')]


def version(root, path, pattern):
    with open(os.path.join(root, path), encoding='utf-8') as f:
        found = re.search(pattern, f.read(), re.M)
    return '.'.join(found.groups()) if found else 'none'


def main():
    found = {path: version(sys.argv[1], path, pattern) for path, pattern in PLACES}
    for path, number in found.items():
        print(f'{number:8} {path}')
    return 0 if len(set(found.values())) == 1 and 'none' not in found.values() else 1


if __name__ == '__main__':
    sys.exit(main())
