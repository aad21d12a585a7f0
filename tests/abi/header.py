#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The public headers, each alone and all together, compile without a warning as C11 and as C++11 to
C++20, strictly; so does what is offered to fill structs with; and the headers pull in nothing but
the C library and each other. usage: header.py FOLDER_OF_THE_HEADERS
"""
import os
import re
import shutil
import subprocess
import sys

ALLOWED = {'stddef.h', 'stdint.h', 'sys/uio.h', 'ripc/ripc.h', 'ripc/stats.h'}
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wundef', '-Wshadow', '-Wcast-align', '-Werror']
DIALECTS = [('cc', '-std=c11', 'c'), ('cc', '-std=c17', 'c'), ('clang-14', '-std=c11', 'c')]
DIALECTS += [(compiler, f'-std=c++{year}', 'c++') for compiler in ('c++', 'clang++-14')
             for year in ('11', '17', '20')]
STRUCTS = ('ripc_config', 'ripc_send', 'ripc_path', 'ripc_stats',
           'ripc_request')
CODE = '#include <ripc/call.h>\nint main(void)\n{\n' + ''.join(
    f'\tstruct {name} {name}_made = RIPC_INIT(struct {name});\n' for name in STRUCTS) + \
    '\treturn ripc_open(&ripc_config_made, 0) + ripc_stats_get(0, &ripc_stats_made) +\n' \
    '\t\tripc_sendmsg(0, &ripc_send_made, 0) + ripc_path_info(0, 1, &ripc_path_made) +\n' \
    '\t\tripc_call_start(0, &ripc_request_made);\n}\n'


def compiles(folder, code, compiler, standard, language):
    done = subprocess.run([compiler, standard, *WARNINGS, '-I', os.path.dirname(folder), '-x',
                           language, '-c', '-', '-o', '/dev/null'], input=code.encode(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print(f'{compiler} {standard}: {done.stdout.decode()}')
    return done.returncode == 0


def main():
    folder = os.path.abspath(sys.argv[1])
    headers = sorted(os.listdir(folder))
    usable = [dialect for dialect in DIALECTS if shutil.which(dialect[0])]
    if {'c', 'c++'} - {language for _, _, language in usable}:
        print('no C and C++ compiler: skipped')
        return 77
    alone = [f'#include <ripc/{header}>\n' for header in headers]
    results = [compiles(folder, code, *dialect) for dialect in usable for code in [CODE, *alone]]
    pulled = set()
    for header in headers:
        with open(os.path.join(folder, header)) as f:
            pulled |= set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', f.read(), re.M))
    print(f'{", ".join(headers)}: {sum(results)} of {len(results)} compiled, includes: '
          f'{", ".join(sorted(pulled))}')
    return 0 if all(results) and pulled <= ALLOWED else 1


if __name__ == '__main__':
    sys.exit(main())
