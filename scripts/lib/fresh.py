# SPDX-License-Identifier: BSD-3-Clause
"""
README.md on fresh systems: the commands of *Install*, the two programs, and the session that compiles
and runs them. Both ends must print what README.md shows.
"""
import os
import re

import roots

SUITES = ['bookworm', 'bullseye']


def parts():
    """The commands that install, {name: program}, and the lines of the session."""
    with open(os.path.join(roots.ROOT, 'README.md'), encoding='utf-8') as f:
        text = f.read()
    block = re.search(r'^## Install\n\n((?:    .*\n)+)', text, re.M).group(1)
    commands = re.sub(r'^    ', '', block, flags=re.M)
    programs = {re.match(r'/\* (\w+\.c): ', program).group(1): program
                for program in re.findall(r'^```c\n(.*?)^```$', text, re.S | re.M)}
    session = re.search(r'^```console\n(.*?)^```$', text, re.S | re.M).group(1).splitlines()
    return commands, programs, session


def script_of(session):
    """Returns a shell script that types the commands, and its output."""
    script, output = ['cd /root/greet'], []
    for line in session:
        if not line.startswith('$ '):
            output.append(line)
        elif line.endswith(' &'):
            # The next command waits for the first line of a server.
            script += [line[2:-1] + '>server 2>&1 &', 'trap "kill $!" EXIT', 'n=0',
                       'until [ -s server ] || [ $n = 300 ]; do n=$((n + 1)); sleep 0.1; done',
                       'cat server']
        else:
            script.append(line[2:])
    return '\n'.join(script + ['']), '\n'.join(output + [''])


def follow(suite):
    """Returns the output of the session, or raises roots.Broken."""
    commands, programs, session = parts()
    script, expected = script_of(session)
    system = roots.System(suite, f'fresh-{suite}')
    try:
        system.copy_sources('/root/libripc')
        for name, program in programs.items():
            system.write(f'/root/greet/{name}', program)
        installed = system.shell(f'cd /root/libripc\n{commands}')
        greeted = system.shell(script, alone=True)
        system.run('ripc', 'doctor', alone=True)
    finally:
        system.remove()
    if greeted != expected:
        raise roots.Broken(f'{suite}: {greeted}\n{installed[-2000:]}')
    return greeted
