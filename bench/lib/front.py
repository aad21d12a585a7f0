# SPDX-License-Identifier: BSD-3-Clause
"""
The data of the pictures in docs/benchmarks.md: one file, in which the lines of each measurement
follow a line with its name and with what report.json has of it.
"""
import json
import os

import plan

NAME = 'measurement'  # the first key of the line before the lines of a measurement


def read(path):
    """{name: (what report.json has of it, its lines)}"""
    found, lines = {}, []
    with open(path, encoding='utf-8') as stream:
        for line in stream:
            if line.startswith('{"%s": ' % NAME):
                row = json.loads(line)
                lines = []
                found[row.pop(NAME)] = row, lines
            else:
                lines.append(line)
    return found


def write(path, found):
    with open(path, 'w', encoding='utf-8') as stream:
        for name in plan.front():
            if name in found:
                row, lines = found[name]
                stream.write(json.dumps({NAME: name, **row}) + '\n')
                stream.writelines(lines)


def take(found, kept, folder):
    """Replaces what was measured again, as bench/report left it in folder; returns the names."""
    names = [name for name in plan.front() if name in kept]
    for name in names:
        path, lines = os.path.join(folder, name + '.jsonl'), []
        if os.path.exists(path):  # not if it failed
            with open(path, encoding='utf-8') as stream:
                lines = stream.readlines()
        found[name] = kept[name], lines
    return names


def unpack(found, folder):
    """As bench/report would have left it in folder; returns what belongs into report.json."""
    for name, (_, lines) in found.items():
        if lines:
            with open(os.path.join(folder, name + '.jsonl'), 'w', encoding='utf-8') as stream:
                stream.writelines(lines)
    return {name: row for name, (row, _) in found.items()}
