#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Writes the programs of README.md into a folder and runs its session there: the commands that compile
them, the server and the client. The output must be that of the page. No program is longer than 25
lines.
usage: readme.py SOURCE_ROOT BUILD_ROOT
"""
import os
import sys
import tempfile

import guide

PROGRAM_LINES = 25


def main():
    root, build = map(os.path.abspath, sys.argv[1:])
    with open(os.path.join(root, 'README.md'), encoding='utf-8') as f:
        page = f.read()
    # Two runs of this test at the same time on one network use different services.
    page = page.replace('("greeter")', f'("greeter {os.getpid()} {os.uname().nodename}")')
    programs = guide.blocks(page, 'c')
    lengths = [program.count('\n') for program in programs]
    sessions = guide.blocks(page, 'console')
    if len(programs) != 2 or len(sessions) != 1 or max(lengths) > PROGRAM_LINES:
        raise guide.Failure(f'{len(sessions)} sessions, programs of {lengths} lines')
    os.environ['PKG_CONFIG_PATH'] = os.path.join(build, 'meson-uninstalled')
    session = sessions[0].replace('$ cc ', f'$ cc -std=c11 -pedantic {" ".join(guide.FLAGS)} ')
    with tempfile.TemporaryDirectory() as folder:
        guide.write_all(page, folder)
        guide.play(session, folder, os.path.join(build, 'src'))


if __name__ == '__main__':
    try:
        main()
    except guide.Failure as failure:
        sys.exit(str(failure))
