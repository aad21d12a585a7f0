# SPDX-License-Identifier: BSD-3-Clause
"""
README.md, "by hand", followed letter by letter on fresh systems: its commands, its program, the
compiler's line; the end is the greeting, at both ends.
"""
import os
import re

import roots

SUITES = ['bookworm', 'bullseye']
GREETING = ['ready\nserver got: good morning\n', 'client got: good morning\n']


def parts():
    """The commands, the program, and the line that compiles it."""
    with open(os.path.join(roots.ROOT, 'README.md')) as f:
        text = f.read()
    block = re.search(r'By\s+hand:\n\n((?:    .*\n)+)', text).group(1)
    commands = re.sub(r'^    ', '', block, flags=re.M)
    program = re.search(r'^```c\n(.*?)^```$', text, re.S | re.M).group(1)
    compiling = re.search(r'^    (cc greet\.c .*)$', text, re.M).group(1)
    return commands, program, compiling


def follow(suite):
    """Returns what the system said, or raises roots.Broken."""
    commands, program, compiling = parts()
    system = roots.System(suite, f'fresh-{suite}')
    try:
        system.copy_sources('/root/libripc')
        system.write('/root/greet/greet.c', program)
        said = system.shell(f'cd /root/libripc\n{commands}')
        system.shell(f'cd /root/greet\n{compiling}')
        greeted = system.shell(
            'cd /root/greet\ntimeout 60 ./greet serve >server 2>&1 & server=$!\n'
            'cd /root/greet\nn=0\nuntil grep -qs ready server || [ $n = 300 ]\n'
            'do n=$((n + 1)); sleep 0.1; done\n'
            './greet >client 2>&1 || true\nwait $server || true\ncat server; echo ---; cat client',
            alone=True)
        system.run('ripc', 'doctor', alone=True)
    finally:
        system.remove()
    if greeted.split('---\n') != GREETING:
        raise roots.Broken(f'{suite}: {greeted}\n{said[-2000:]}')
    return greeted
