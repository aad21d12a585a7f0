# SPDX-License-Identifier: BSD-3-Clause
"""
The table of README.md, made from docs/figures.md, so that both show the same run. Each measurement
has a row for the size or load at which libripc does worst. A second row shows the best one if the
verdict differs there. All others are in docs/figures.md only.

usage: python3 scripts/lib/readme_figures.py     writes the table into README.md
"""
import os
import re
import sys
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN = '<!-- scripts/figures --readme writes from here -->\n'
END = '<!-- to here -->\n'
PEERS = {'unix': 'Unix datagrams', 'tcp': 'TCP', 'udp': 'UDP', 'memcpy': 'one copy in a process',
         'shm': 'a bare ring in shared memory'}
LOCAL_PEERS = ('Unix', 'ipc')  # peers of shared memory in bench/compare/call_rates

# gain: more than 1 where libripc is faster; low and high: its interval.
Peer = namedtuple('Peer', 'name value gain low high')
Row = namedtuple('Row', 'label value peers')


class Unreadable(Exception):
    """docs/figures.md does not have the format of scripts/figures."""


def number(text):
    return float(text.replace(',', ''))


# ---- one peer ---------------------------------------------------------------------------------

def gain(ratio, low, high, less_is_better):
    if less_is_better:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    return ratio, low, high


def verdict(peer):
    if peer.low <= 1 <= peer.high:
        return 'no difference'
    return 'faster' if peer.gain > 1 else 'slower'


def verdict_text(peer):
    found = verdict(peer)
    if found == 'no difference':
        return found
    factor = peer.gain if found == 'faster' else 1 / peer.gain
    text = f'{factor:.2f}x {found}' if factor < 2 else f'{factor:.1f}x {found}'
    return f'**{text}**' if found == 'slower' else text


# ---- what the programs print ------------------------------------------------------------------

def size_text(size):
    for unit, name in ((1 << 20, 'MiB'), (1 << 10, 'KiB')):
        if size % unit == 0:
            return f'{size // unit} {name}'
    return f'{size:,} B'


def value_text(value, unit):
    if unit == 'MB/s':
        return f'{value / 1000:.1f} GB/s'
    return f'{value:.2f} {unit}' if value < 10 else f'{value:.1f} {unit}'


def bench_rows(title, text):
    """Rows of the output of ripc-bench, one for each size."""
    unit = re.search(r'; (us|MB/s);', text)
    direction = re.search(r'^ratio: ripc / peer, (less|more) than 1: ripc is faster', text, re.M)
    if not unit or not direction:
        raise Unreadable(f'{title}: no unit, or no direction of the ratio')
    rows = []
    for line in re.findall(r'^ +(?:\d+ +)*[a-z][\w-]* +[\d. ]+$', text, re.M):
        sizes, name, values = re.match(r' +((?:\d+ +)*)([a-z][\w-]*)((?: +[\d.]+)+)$', line).groups()
        values = [float(value) for value in values.split()]
        shown = value_text(values[0], unit[1])
        if sizes:
            rows.append(Row(f'{title}, {size_text(int(sizes.split()[0]))}', shown, []))
        else:
            rows[-1].peers.append(Peer(PEERS.get(name, name), shown,
                                       *gain(*values[-3:], direction[1] == 'less')))
    return rows


def file_rows(title, text):
    """Rows of the output of bench/compare/files, one for each depth."""
    return [Row(f'{title}, {depth} at once', f'{int(ours):,} /s',
                [Peer('TCP', f'{int(theirs):,} /s', float(ratio), float(low), float(high))])
            for depth, ours, theirs, ratio, low, high in re.findall(
                r'^ *(\d+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)  \S', text, re.M)]


def rate_peers(ours, rates, reference, local):
    """
    An interval goes from our least rate / their highest rate to our highest rate / their least rate.
    The page has the median of the ratios for the reference. The ratio of the medians serves for the
    other peers.
    """
    return [Peer(name, f'{theirs[0]:,.0f} /s',
                 ours[3] if name == reference else ours[0] / theirs[0],
                 ours[1] / theirs[2], ours[2] / theirs[1])
            for name, theirs in rates.items()
            if not name.startswith('libripc') and name.endswith(LOCAL_PEERS) == local]


def rate_rows(title, text):
    """Rows of the output of bench/compare/call_rates: by backend, kind of call, and requests under way."""
    for clients, underway, reference, part in re.findall(
            r'^(\d+) clients, (\d+) under way each:.*; times (.*)\n((?:  .*\n)+)', text, re.M):
        rates = {name: [number(rate) for rate in found] for name, *found in re.findall(
            r'^  (\S.*?) {2,}([\d,]+)   \(([\d,]+) to ([\d,]+)\) +([\d.]+)$', part, re.M)}
        for name, ours in rates.items():
            if name.startswith('libripc'):
                yield Row(f'{title}, {name[len("libripc, "):]}, {clients} clients, '
                          f'{underway} under way each', f'{ours[0]:,.0f} /s',
                          rate_peers(ours, rates, reference, ', shm' in name))


# ---- the table --------------------------------------------------------------------------------

def notable(rows):
    """The row at which libripc does worst, and the best one if the verdict differs there."""
    if not rows:
        return []
    by_gain = sorted(rows, key=lambda row: min(peer.gain for peer in row.peers))
    verdicts = [[verdict(peer) for peer in row.peers] for row in by_gain]
    return by_gain[:1] + (by_gain[-1:] if verdicts[0] != verdicts[-1] else [])


def rows_of(title, text):
    if text.startswith(('latency:', 'bandwidth:')):
        return notable(bench_rows(title, text))
    if ' clients, ' in text:
        rows = list(rate_rows(title, text))
        return [row for local in (True, False) for row in notable(
            [row for row in rows if (', shm, ' in row.label) == local])]
    return notable(file_rows(title, text))


def line_of(row):
    return '| {} | {} | {} | {} |\n'.format(
        row.label, row.value, '; '.join(f'{peer.name} {peer.value}' for peer in row.peers),
        '; '.join(verdict_text(peer) for peer in row.peers))


def table(figures):
    machine = dict(re.findall(r'^\| ([a-z]+) \| (.+) \|$', figures, re.M))
    lines = []
    for title, text in re.findall(r'^## ([^\n]*)\n\n`[^\n]*`\n\n```\n+(.*?)^```$', figures, re.S | re.M):
        rows = rows_of(title, text)
        if not rows or not all(row.peers for row in rows):
            raise Unreadable(f'{title}: no rows')
        lines += [line_of(row) for row in rows]
    if not lines or not {'date', 'commit', 'processor', 'processors'} <= set(machine):
        raise Unreadable('no measurements, or no machine')
    return ('Measured on {date} at commit {commit}, on a virtual machine: {processor}, {processors} '
            'processors.\n\n'.format(**machine) +
            '| measurement | libripc | reference | libripc is |\n| --- | --- | --- | --- |\n' +
            ''.join(lines))


def with_table(readme, figures):
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Unreadable('README.md lacks the two marks of the table')
    return before + BEGIN + table(figures) + END + after


def read(name):
    with open(os.path.join(ROOT, name), encoding='utf-8') as f:
        return f.read()


def main():
    try:
        text = with_table(read('README.md'), read('docs/figures.md'))
    except (Unreadable, OSError) as error:
        sys.exit(f'scripts/figures: {error}')
    with open(os.path.join(ROOT, 'README.md'), 'w', encoding='utf-8') as f:
        f.write(text)
    print('written: the table of README.md')


if __name__ == '__main__':
    main()
