# SPDX-License-Identifier: BSD-3-Clause
"""
The files that `ripc-bench TEST --out PREFIX` wrote: PREFIX.jsonl and, for times, PREFIX-*.hgrm.
"""
import json
import os
from collections import namedtuple

SPIN_NEVER = 2**32 - 1  # RIPC_SPIN_NEVER
NUMBER = (int, float)
# Keys of a line, and what they must be.
LINE = {'test': str, 'size': int, 'unit': str, 'less_is_better': bool, 'variable': str,
        'value': int, 'pairs': int, 'ripc': dict}
PEER = {'median': NUMBER, 'p99': NUMBER}
RATIO = {'median': NUMBER, 'low': NUMBER, 'high': NUMBER}
MACHINE = {'processor': str, 'processors': int, 'kernel': str, 'date': str}
COSTS = ('client_user', 'client_system', 'server_user', 'server_system', 'softirq', 'idle')

# One peer at one size and value: its median and 99th percentile, and what a message cost.
Point = namedtuple('Point', 'size value median p99 cost')


class Malformed(Exception):
    """Says which file and line is wrong, and how."""


class Results:
    """The contents of one file."""

    def __init__(self, path, machine, rows):
        self.path, self.machine, self.rows = path, machine, rows
        self.stem = os.path.basename(path)[:-len('.jsonl')]
        self.test = rows[0]['test']
        self.unit = rows[0]['unit']
        self.variable = rows[0]['variable']
        self.less_is_better = rows[0]['less_is_better']

    def sizes(self):
        return sorted({row['size'] for row in self.rows})

    def values(self):
        return sorted({row['value'] for row in self.rows})

    def backend(self):
        """The network of libripc's messages: the path's first word."""
        paths = [row.get('path') or '' for row in self.rows]
        named = [path.split('/')[0] for path in paths if '/' in path]
        return named[0] if named else ''

    def spin_us(self):
        return self.rows[0].get('spin_us', 0)

    def points(self):
        """{peer: [Point]}, ours first; each size and value once."""
        found = {'ripc': {}}
        for row in self.rows:
            where = row['size'], row['value']
            found['ripc'].setdefault(where, point(row, row['ripc']))
            if 'vs' in row:
                found.setdefault(row['vs'], {})[where] = point(row, row['peer'])
        return {peer: [by[where] for where in sorted(by)] for peer, by in found.items()}

    def histogram(self, peer, size, value):
        """[(1 / (1 - fraction), us)] of a .hgrm file, or None if there is none."""
        name = f'{self.stem}-{self.test}-{peer}-{size}-{value}.hgrm'
        path = os.path.join(os.path.dirname(self.path), name)
        return read_histogram(path) if os.path.exists(path) else None


def point(row, numbers):
    cost = numbers.get('cpu_us') or {}
    return Point(row['size'], row['value'], numbers['median'], numbers['p99'],
                 {name: cost.get(name, 0) for name in COSTS})


def require(where, found, keys, name=''):
    for key, kind in keys.items():
        if key not in found:
            raise Malformed(f'{where}: there is no "{name}{key}"')
        wrong = isinstance(found[key], bool) and kind is not bool
        if wrong or not isinstance(found[key], kind):
            raise Malformed(f'{where}: "{name}{key}" cannot be {json.dumps(found[key])}')


def check_row(where, row):
    require(where, row, LINE)
    require(where, row['ripc'], PEER, 'ripc.')
    if 'vs' in row:
        require(where, row, {'vs': str, 'peer': dict, 'ratio': dict})
        require(where, row['peer'], PEER, 'peer.')
        require(where, row['ratio'], RATIO, 'ratio.')


def parse(where, line):
    try:
        found = json.loads(line)
    except ValueError as error:
        raise Malformed(f'{where}: not JSON: {error}') from None
    if not isinstance(found, dict):
        raise Malformed(f'{where}: not a JSON object')
    return found


def read_results(path):
    if not path.endswith('.jsonl'):
        raise Malformed(f'{path}: its name does not end with .jsonl')
    machine, rows = None, []
    with open(path, encoding='utf-8') as stream:
        for number, line in enumerate(stream, 1):
            where = f'{path}:{number}'
            found = parse(where, line)
            if number == 1:
                require(where, found, {'machine': dict})
                machine = found['machine']
                require(where, machine, MACHINE, 'machine.')
                continue
            check_row(where, found)
            if rows and found['test'] != rows[0]['test']:
                raise Malformed(f'{where}: "{found["test"]}" among lines of "{rows[0]["test"]}"')
            rows.append(found)
    if not rows:
        raise Malformed(f'{path}:{2 if machine else 1}: nothing was measured')
    return Results(path, machine, rows)


def read_histogram(path):
    found = []
    with open(path, encoding='utf-8') as stream:
        for number, line in enumerate(stream, 1):
            if number == 1 or line.startswith('#') or not line.strip():
                continue
            words = line.split()
            if len(words) < 4:
                continue  # the maximum, for which there is no 1 / (1 - 1)
            try:
                found.append((float(words[3]), float(words[0])))
            except ValueError:
                raise Malformed(f'{path}:{number}: not four numbers: {line.strip()}') from None
    return found
