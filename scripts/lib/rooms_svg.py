# SPDX-License-Identifier: BSD-3-Clause
"""
Draws the rooms of src/core with their files, the highest on top, and which rooms each includes.
"""
import glob
import html
import os
import re

# The highest first; what each does.
ROOMS = {
    'api': 'public calls: check, lock, delegate',
    'engine': 'schedule of all work',
    'show': 'counters, and the page that shows them to others',
    'call': 'questions and answers',
    'group': 'messages to many',
    'send': 'messages that go',
    'receive': 'messages that come',
    'message': 'messages, queue, places, what is lent',
    'partner': 'incarnations of remote services',
    'peer': 'remote contexts: routes, round trips, windows',
    'resolve': 'from an ID to a record',
    'keys': 'sealed datagrams, handshakes, capabilities',
    'net': 'the contract of backends and sources',
    'base': 'log, errors, budgets',
    'memory': 'pages, the pool of buffers',
    'wire': 'the bytes of packets',
}
WIDTH, LEFT, BOX, LINE, PAD, LETTERS = 900, 12, 640, 17, 8, 96
STYLE = ('text{font:13px sans-serif;fill:#222}.room{font-weight:bold}.files{fill:#555;font-size:12px}'
         'rect{fill:#f4f6fa;stroke:#8899b0}path{fill:none;stroke:#5577aa;stroke-opacity:.55}')


def includes(core, room):
    """{other room: how many includes lead there}"""
    found = {}
    for path in glob.glob(os.path.join(core, room, '*.[ch]')):
        with open(path) as f:
            for other in re.findall(r'^#include "core/(\w+)/', f.read(), re.M):
                if other != room and other in ROOMS:
                    found[other] = found.get(other, 0) + 1
    return found


def lines_of(core, room):
    """The names of its files, in lines that fit."""
    paths = glob.glob(os.path.join(core, room, '*.c'))
    names = sorted(os.path.basename(path)[:-2] for path in paths)
    lines = ['']
    for name in names:
        if len(lines[-1]) + len(name) > LETTERS:
            lines.append('')
        lines[-1] += name + '  '
    return [line.strip() for line in lines]


def draw(root):
    """The picture of a tree, as SVG."""
    core = os.path.join(root, 'src/core')
    boxes, y = {}, PAD
    parts = []
    for room, duty in ROOMS.items():
        lines = lines_of(core, room)
        height = (len(lines) + 1) * LINE + PAD
        boxes[room] = (y, height)
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="{height}" rx="4"/>'
                     f'<text x="{LEFT + PAD}" y="{y + LINE}"><tspan class="room">{room}</tspan>'
                     f'  {html.escape(duty)}</text>')
        for number, line in enumerate(lines):
            parts.append(f'<text class="files" x="{LEFT + PAD}" y="{y + (number + 2) * LINE}">'
                         f'{html.escape(line)}</text>')
        y += height + PAD
    names = list(ROOMS)
    for room in ROOMS:
        for other, n in sorted(includes(core, room).items()):
            apart = names.index(other) - names.index(room)
            top = boxes[room][0] + boxes[room][1] / 2
            end = boxes[other][0] + boxes[other][1] / 2 - 4
            right = LEFT + BOX
            bow = right + 30 + 24 * abs(apart)
            parts.append(f'<path stroke-width="{min(1 + n / 4, 6):.1f}" d="M{right} {top:.0f} '
                         f'C{bow} {top:.0f} {bow} {end:.0f} {right} {end:.0f}">'
                         f'<title>{room} includes {other}: {n} times</title></path>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">'
            f'<style>{STYLE}</style>' + '\n'.join([''] + parts) + '\n</svg>\n')
