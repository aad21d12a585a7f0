# SPDX-License-Identifier: BSD-3-Clause
"""
The probes that docs/looking.md names are in the library, with as many arguments.
usage: test_probes.py READELF LIBRARY SOURCE_DIR
"""
import os
import re
import subprocess
import sys

REGISTER_OR_MEMORY = re.compile(r'-?[1248]@\S+$')


def main(readelf, library, source):
    notes = subprocess.run([readelf, '-n', '-W', library], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for provider, name, arguments in re.findall(r'Provider: (\S+)\s+Name: (\S+)\s.*?Arguments: ([^\n]*)', notes, re.S):
        assert provider == 'ripc', provider
        assert all(REGISTER_OR_MEMORY.match(argument) for argument in arguments.split()), (name, arguments)
        found.setdefault(name, set()).add(len(arguments.split()))
    with open(os.path.join(source, 'docs/looking.md'), encoding='utf-8') as file:
        rows = re.findall(r'^\| `(\w+)` \| ([^|]*) \|', file.read().split('## Probes')[1], re.M)
    told = {name: {len(arguments.split(', '))} for name, arguments in rows}
    assert found == told, f'in the library {found}, in docs/looking.md {told}'
    print(f'{len(found)} probes:', ', '.join(sorted(found)))


if __name__ == '__main__':
    main(*sys.argv[1:])
