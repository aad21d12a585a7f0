# SPDX-License-Identifier: BSD-3-Clause
"""
Draws the layers of src/core with their rooms and files, the highest on top, and how often the rooms
of a layer call functions of another layer.
"""
import glob
import html
import os
import re

import calls

# The layers, the highest first: what each does, and its rooms with what each room does.
LAYERS = {
    'api': ('the public calls', {
        'api': 'checks, locks, delegates',
        'show': 'counters, and the page that shows them to others',
    }),
    'engine': ('the loop', {
        'engine': 'schedule of all work; input goes to its partner',
    }),
    'conversation': ('one machine, whose parts call each other', {
        'call': 'requests and replies',
        'group': 'multicast messages',
        'send': 'outgoing messages',
        'receive': 'incoming messages',
        'message': 'messages, queue, places, return buffers',
        'partner': 'incarnations of remote services',
    }),
    'reach': ('addresses and keys', {
        'peer': 'remote contexts: routes, round trips, windows',
        'resolve': 'from an ID to a record',
        'keys': 'sealed datagrams, handshakes, capabilities',
    }),
    'ground': ('used by all others', {
        'net': 'the contract of backends and sources',
        'base': 'log, errors, budgets',
        'wire': 'the bytes of packets',
    }),
    'memory': ('buffers', {
        'memory': 'pages, the pool of buffers',
    }),
}
ROOMS = {room: duty for _, rooms in LAYERS.values() for room, duty in rooms.items()}
WIDTH, LEFT, BOX, LINE, PAD, LETTERS = 900, 12, 640, 17, 8, 96
STYLE = ('text{font:13px sans-serif;fill:#222}.layer{font-weight:bold;font-size:15px}.room{font-weight:bold}.files{fill:#555;font-size:12px}'
         'rect{fill:#f4f6fa;stroke:#8899b0}path{fill:none;stroke:#5577aa;stroke-opacity:.55}'
         '.up{stroke:#c03a2b;stroke-opacity:.9}')


def layer_of(room):
    """Its place in LAYERS; 0 is the highest."""
    return next(n for n, (_, rooms) in enumerate(LAYERS.values()) if room in rooms)


def calls_between(core):
    """{(layer, other layer): how many functions of the other one its files name}"""
    texts = {}
    for path in glob.glob(os.path.join(core, '*', '*.[ch]')):
        with open(path) as f:
            texts[path] = f.read()
    found = {}
    for path, function, home in calls.named(texts):
        here, there = (layer_of(os.path.basename(os.path.dirname(p))) for p in (path, home))
        if here != there:
            found[here, there] = found.get((here, there), 0) + 1
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
    boxes, y = [], PAD
    parts = []
    for layer, (duty, rooms) in LAYERS.items():
        top, inner = y, [f'<text x="{LEFT + PAD}" y="{y + LINE}"><tspan class="layer">{layer}</tspan>'
                         f'  {html.escape(duty)}</text>']
        y += LINE + PAD
        for room, work in rooms.items():
            y += LINE
            inner.append(f'<text x="{LEFT + 2 * PAD}" y="{y}"><tspan class="room">{room}</tspan>'
                         f'  {html.escape(work)}</text>')
            for line in lines_of(core, room):
                y += LINE
                inner.append(f'<text class="files" x="{LEFT + 2 * PAD}" y="{y}">'
                             f'{html.escape(line)}</text>')
            y += PAD
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{BOX}" height="{y - top}" rx="4"/>')
        parts += inner
        boxes.append((top, y))
        y += PAD
    for (here, there), n in sorted(calls_between(core).items()):
        down = here < there
        top, end = (sum(boxes[k]) / 2 + shift for k, shift in ((here, 4), (there, -4)))
        right = LEFT + BOX
        bow = right + 40 + 36 * abs(there - here)
        kind = 'down' if down else 'up'
        parts.append(f'<path class="{kind}" stroke-width="{min(1 + n / 16, 6):.1f}" '
                     f'd="M{right} {top:.0f} C{bow} {top:.0f} {bow} {end:.0f} {right} {end:.0f}">'
                     f'<title>{list(LAYERS)[here]} calls {list(LAYERS)[there]}: '
                     f'{n} functions</title></path>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">'
            f'<style>{STYLE}</style>' + '\n'.join([''] + parts) + '\n</svg>\n')
