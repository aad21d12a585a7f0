# SPDX-License-Identifier: BSD-3-Clause
"""How pictures look: who is drawn how and called what, scales, legend, and what stands around."""
import io
import math
import os

import matplotlib
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from results import SPIN_NEVER

matplotlib.use('svg')
import matplotlib.pyplot as plot  # noqa: E402

matplotlib.rcParams.update({
    'svg.hashsalt': 'libripc', 'svg.fonttype': 'none', 'font.family': 'DejaVu Sans',
    'font.size': 9, 'axes.titlesize': 9.5, 'axes.labelsize': 9, 'legend.fontsize': 8,
    'axes.grid': True, 'grid.alpha': 0.25, 'axes.axisbelow': True, 'figure.dpi': 100})

# Okabe and Ito's colours, and two of Tol's: told apart by colour-blind people, too.
BLUE, RED, ORANGE, GREEN, PURPLE, SKY, BLACK, OLIVE, WINE = (
    '#0072B2', '#D55E00', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#000000', '#999933',
    '#882255')
# Name in words, colour, marker, line.
PEERS = {
    'ripc': ('libripc', BLUE, 'o', '-'),
    'ripc-return': ('libripc, return buffers\n(into posted memory)', SKY, 's', '-'),
    'ripc-window': ('libripc, windows\n(into memory that stays open)', GREEN, '^', '-'),
    'ripc-give': ('libripc, buffers given\n(freed when delivered)', PURPLE, 'D', '-'),
    'ripc-again': ('found before', SKY, 's', '-'),
    'ripc-absent': ('nobody has it', RED, '^', '-'),
    'tcp': ('TCP socket', RED, 's', '-'),
    'udp': ('UDP socket', ORANGE, '^', '-'),
    'unix': ('Unix datagram socket', GREEN, 'D', '-'),
    'shm': ('bare shared memory, spinning', BLACK, 'v', '-'),
    'memcpy': ('memcpy in one process', BLACK, 'v', ':'),
    'zmq': ('ZeroMQ over TCP', PURPLE, 'P', '-'),
    'zmq-ipc': ('ZeroMQ over Unix sockets', PURPLE, 'P', '--'),
    'nng': ('nng over TCP', SKY, 'X', '-'),
    'nng-ipc': ('nng over Unix sockets', SKY, 'X', '--'),
    'ucx': ('UCX, by what it chooses itself', OLIVE, 'p', '-'),
    'ucx-tcp': ('UCX over TCP', OLIVE, 'p', '--'),
    'ucx-one': ('UCX, all messages in one place', OLIVE, 'p', ':'),
    'fi-tcp': ('libfabric, tcp', WINE, 'h', '-'),
    'fi-shm': ('libfabric, shm', WINE, 'h', '--'),
}
GIVEN_ON_ONE_HOST = 'libripc, buffers given\n(above 512 KiB mapped, not copied)'
BACKENDS = {'shm': 'shared memory', 'udp': 'UDP', 'ofi': 'libfabric', 'verbs': 'RDMA verbs',
            'rdmacm': 'iWARP', 'loop': 'one process'}
# Told apart by dashes and hollow markers: there are hardly more than two greys that the eye knows.
GREY_LINES = [('#444444', 'o', '-'), ('#777777', 's', (0, (6, 2.5))),
              ('#444444', '^', (0, (1, 1.7))), ('#777777', 'D', (0, (7, 2, 1, 2, 1, 2)))]
LIBRARIES = ('zmq', 'nng', 'ucx', 'fi-')  # how those peers' names begin
SMALL = 7.5
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_WIDTH = 4.3, 3.4, 2.75


def network(results):
    """
    The networks of libripc's messages, in words. For measurements without a path: by the first
    words of the file name.
    """
    by = results.backend()
    return BACKENDS.get(by or results.stem.split('-')[0], by)


def peer_name(peer, results):
    if peer == 'ripc-give' and results.backend() == 'shm':
        return GIVEN_ON_ONE_HOST
    name = PEERS.get(peer, (peer,))[0]
    by = network(results)
    return f'{name}, {by}' if peer == 'ripc' and by else name


def peer_style(peer):
    _, colour, marker, line = PEERS.get(peer, (peer, WINE, '*', '-.'))
    width = 2.2 if peer == 'ripc' else 1.4
    return {'color': colour, 'marker': marker, 'linestyle': line, 'linewidth': width,
            'markersize': 5, 'zorder': 4 if peer == 'ripc' else 3}


def size_text(size):
    for unit, name in ((1 << 30, 'GiB'), (1 << 20, 'MiB'), (1 << 10, 'KiB')):
        if size >= unit and size * 8 % unit == 0:
            return f'{size / unit:g} {name}'
    return f'{size:,.0f} B'


def number_text(value):
    for unit, name in ((1e9, ' G'), (1e6, ' M'), (1e3, ' k')):
        if value >= unit:
            return f'{value / unit:g}{name}'
    return f'{value:,g}'


def who_sleeps(results):
    """Which of the peers sleep at once by default: (in short, at length); empty: there are none."""
    peers = results.points()
    kinds = [words for words, found in (
        ('sockets', {'tcp', 'udp', 'unix'} & set(peers)),
        ('other libraries', [peer for peer in peers if peer.startswith(LIBRARIES)])) if found]
    at_length = ' and '.join(kinds) + (' (not libfabric\'s shm)' if 'fi-shm' in peers else '')
    return kinds[0] if kinds else '', at_length


def waits_text(results):
    spin = results.spin_us()
    who = 'all' if len(results.points()) > 1 else 'libripc'
    if spin == SPIN_NEVER:
        return f'{who} {"sleep" if who == "all" else "sleeps"} until something comes'
    if spin:
        return f'{who} {"poll" if who == "all" else "polls"} for up to {spin} us before sleeping'
    ours = 'libripc polls for up to 50 us while that pays'
    _, others = who_sleeps(results)
    return f'{ours}, {others} sleep until something comes' if others else ours


def how_text(results):
    """By which network, and how they wait: pictures of one test differ in that."""
    by = network(results)
    spin = results.spin_us()
    sleeper, _ = who_sleeps(results)
    waits = 'all sleep' if spin == SPIN_NEVER else 'all poll' if spin else \
        'libripc polls' + (f', {sleeper} sleep' if sleeper else '')
    return f'libripc over {by}; {waits}' if by else waits


def machine_text(results):
    machine = results.machine
    words = [machine['processor'], f'{machine["processors"]} processors', machine['kernel'],
             machine['date'][:10]]
    if 'load' in machine:
        words.append(f'load average {machine["load"]:.1f} before')
    return ', '.join(words) + '\n' + waits_text(results)


# ---- scales ---------------------------------------------------------------------------------


def log_ticks(least, most):
    """1, 2, 5, 10, ... as long as there are not too many."""
    decades = 0
    while least * 10 ** decades < most:
        decades += 1
    if decades <= 1:
        return (1, 1.5, 2, 3, 5, 7)
    return (1, 2, 5) if decades <= 3 else (1,)


def log_y(axis):
    """With a tick below whatever is drawn."""
    axis.set_yscale('log')
    axis.set_ylabel(f'{axis.get_ylabel()}, log scale')
    least, most = axis.get_ylim()
    power = 10 ** math.floor(math.log10(least))
    steps_down = [step * power for step in log_ticks(least, most) if step * power <= least]
    axis.set_ylim(bottom=0.97 * steps_down[-1])
    axis.yaxis.set_major_locator(LogLocator(subs=log_ticks(least, most)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axis.yaxis.set_minor_formatter(NullFormatter())


def spread(ticks, at_most=8):
    """Those of the ticks, which are to be shown on a logarithmic scale, that leave room."""
    ticks = sorted(set(ticks))
    if len(ticks) < 3:
        return ticks
    room = math.log(ticks[-1] / ticks[0]) / at_most
    found = ticks[:1]
    for tick in ticks[1:]:
        if math.log(tick / found[-1]) >= room * 0.99:
            found.append(tick)
    if found[-1] != ticks[-1]:
        found[-1:] = [ticks[-1]] if len(found) > 1 else [found[0], ticks[-1]]
    return found


def shown_x(axis):
    """Where there are points, other people's among them."""
    return sorted({float(x) for line in axis.get_lines() for x in line.get_xdata()
                   if line.get_gid() != 'everywhere' and x > 0})


def steps(values):
    """1, 2, 5, 10, ... from the least of the values to the greatest."""
    first, last = math.floor(math.log10(values[0])), math.ceil(math.log10(values[-1]))
    found = [step * 10 ** power for power in range(first, last + 1) for step in (1, 2, 5)]
    return [tick for tick in found if values[0] <= tick <= values[-1]]


def log_x(axis, text, ticks=None):
    axis.set_xscale('log')
    ticks = spread(ticks or shown_x(axis))
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.xaxis.set_minor_locator(NullLocator())
    if sum(len(text(value)) + 1 for value in ticks) > 36:
        axis.tick_params(axis='x', labelrotation=35)


def size_x(axis, sizes=None):
    """The logarithm of bytes, unless they are within a factor of 32: then bytes."""
    axis.set_xlabel('message size (bytes)')
    sizes = sizes or shown_x(axis)
    if sizes[-1] > 32 * sizes[0]:
        log_x(axis, size_text, sizes)
    else:
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.0f}'))


# ---- what stands around ---------------------------------------------------------------------


def better_text(less_is_better):
    return '↓ lower is better' if less_is_better else '↑ higher is better'


class Frame:
    """A picture of some panels, with one legend beside them and small print below."""

    def __init__(self, results, title, n_panels=1, note=''):
        columns = 1 if n_panels == 1 else 2 if n_panels in (2, 4) else 3
        rows = -(-n_panels // columns)
        width = (6 if n_panels == 1 else PANEL_WIDTH * columns) + LEGEND_WIDTH
        self.figure = plot.figure(figsize=(width, PANEL_HEIGHT * rows + 1.1),
                                  layout='constrained')
        grid = self.figure.add_gridspec(
            rows, columns + 1, width_ratios=[width - LEGEND_WIDTH] + [LEGEND_WIDTH]
            if columns == 1 else [PANEL_WIDTH] * columns + [LEGEND_WIDTH])
        self.panels = [self.figure.add_subplot(grid[i // columns, i % columns])
                       for i in range(n_panels)]
        self.beside = self.figure.add_subplot(grid[:, columns])
        self.beside.axis('off')
        self.figure.suptitle(f'{title}, {how_text(results)}', fontsize=11, fontweight='bold',
                             x=0.012, ha='left')
        small = machine_text(results) + (f'\n{note}' if note else '')
        self.figure.supxlabel(small, fontsize=SMALL, color='#444444', x=0.012, ha='left')

    def describe(self, axis, what, y, less_is_better):
        axis.set_title(what, loc='left')
        axis.set_title(better_text(less_is_better), loc='right', fontsize=8, style='italic')
        axis.set_ylabel(y)

    def legend(self):
        """Labels of all panels; each name once, other people's last."""
        found = {}
        for axis in self.panels:
            for handle, name in zip(*axis.get_legend_handles_labels()):
                found.setdefault(name, handle)
        ours = {name: handle for name, handle in found.items() if not is_published(name)}
        theirs = {name: handle for name, handle in found.items() if is_published(name)}
        first = self.beside.legend(ours.values(), ours.keys(), loc='upper left', borderaxespad=0,
                                   frameon=False, title='measured here', alignment='left')
        if theirs:
            self.beside.add_artist(first)
            self.beside.legend(theirs.values(), theirs.keys(), loc='lower left', frameon=False,
                               borderaxespad=0, title='published, other hardware',
                               alignment='left', labelcolor='#444444', handlelength=3.2)


def is_published(name):
    return ':\n' in name


def within(axis, curve):
    """Published values not far from the values measured here: within a factor of 4."""
    shown = shown_x(axis)
    near = [(x, y) for x, y in zip(curve.x, curve.y) if shown[0] / 4 <= x <= shown[-1] * 4]
    return [x for x, _ in near], [y for _, y in near]


def draw_published(axis, curves, is_near=True):
    near = [within(axis, curve) if is_near else (curve.x, curve.y) for curve in curves]
    for (colour, marker, line), curve, (x, y) in zip(GREY_LINES, curves, near):
        axis.plot(x, y, color=colour, marker=marker, linestyle=line, linewidth=1.1,
                  markersize=5, markerfacecolor='white', zorder=2, label=curve.name)


def write(figure, path):
    """As path.svg, the same bytes for the same figures, and as path.png."""
    text = io.StringIO()
    figure.savefig(text, format='svg', metadata={'Date': None, 'Creator': None})
    with open(path + '.svg', 'w', encoding='utf-8') as stream:
        stream.writelines(line.rstrip() + '\n' for line in text.getvalue().splitlines())
    figure.savefig(path + '.png', format='png', dpi=110, metadata={'Software': None})
    plot.close(figure)
    return [os.path.basename(path) + kind for kind in ('.svg', '.png')]
