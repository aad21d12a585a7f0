# SPDX-License-Identifier: BSD-3-Clause
"""
Other people's figures, measured on their hardware, from bench/data/published_*.csv: curves to draw
in grey beside ours, where the quantity is the same.
"""
import csv
import os
from collections import namedtuple

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EFA = 'EFA thesis (KIT)'
FABRICS = {'rdma': 'RDMA, ConnectX-5', 'efa': 'EFA, 2 × c5n.18xlarge'}
REPORT = 'libfabric report'
IWARP = 'LibRIPC thesis (KIT, 2012)'

Curve = namedtuple('Curve', 'name x y')


def rows(name):
    with open(os.path.join(HERE, f'data/published_{name}.csv'), encoding='utf-8') as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith('#')))


def columns(table, x, y, scale=1):
    pairs = [(float(row[x]), float(row[y]) * scale) for row in table]
    return [a for a, _ in pairs], [b for _, b in pairs]


def iwarp(test, names):
    table = rows('iwarp')
    for series, name in names.items():
        found = [row for row in table if (row['test'], row['series']) == (test, series)]
        yield Curve(f'{IWARP}:\n{name}', *columns(found, 'bytes', 'value'))


def latency(sizes):
    """Round trips, us by bytes."""
    if max(sizes) <= 1500:
        return list(iwarp('pingpong_rtt', {
            'tcp_sockets': 'TCP, IPoIB', 'ripc_udp_short': 'LibRIPC over UDP, IPoIB',
            'ripc_rdma_short': 'LibRIPC over Soft-iWARP',
            'ripc_infiniband_short': 'LibRIPC over InfiniBand'}))
    table = rows('efa')
    names = {'rc_rdma_us': FABRICS['rdma'], 'srd_us': FABRICS['efa'],
             'tcp_us': 'TCP, 2 × c5n.18xlarge'}
    return [Curve(f'{EFA}, half a round trip, doubled:\n{name}', *columns(table, 'bytes', column, 2))
            for column, name in names.items()]


def files():
    """ms per file, by bytes."""
    return list(iwarp('file_transfer', {
        'tcp_sockets': 'TCP, IPoIB', 'ripc_iwarp': 'LibRIPC over Soft-iWARP',
        'ripc_infiniband': 'LibRIPC over InfiniBand'}))


def of_fabrics(table, metric, x, column, scale):
    for fabric, name in FABRICS.items():
        found = [row for row in table if row['metric'] == metric
                 and row.get('fabric', fabric) == fabric]
        key = column.format(fabric=fabric)
        if found and key in found[0]:
            yield Curve(f'{EFA}:\n{name}', *columns(found, x, key, scale))


def depth(size, in_bytes):
    """Messages/s, or MB/s, against depth."""
    metric, scale = ('MB/s', 1) if in_bytes else ('Mmsg/s', 1e6)
    return list(of_fabrics(rows('efa_depth'), metric, 'depth', f'b{size}', scale))


def threads(size, in_bytes):
    metric, scale = ('MB/s', 1) if in_bytes else ('Mmsg/s', 1e6)
    return list(of_fabrics(rows('efa_threads'), metric, 'threads', '{fabric}_%dB' % size, scale))


def saturation(size):
    """us against messages/s: (median, 99th percentile)."""
    if size != 4096:
        return []
    table = rows('efa_saturation')
    found = []
    for column, name in (('p50_us', 'median'), ('p99_us', '99th percentile')):
        x, y = columns(table, 'MB_per_s', column)
        found.append(Curve(f'{EFA}, {name}:\n{FABRICS["efa"]}', [v * 1e6 / size for v in x], y))
    return found


def parallelism(at_once, column='mbit', scale=1 / 8):
    """MB/s by bytes, with so many messages on their way at once."""
    found = [row for row in rows('libfabric') if int(row['parallelism']) == at_once]
    if not found:
        return []
    return [Curve(f'{REPORT}:\nlibfabric {name}, ConnectX-5',
                  *columns(found, 'bytes', f'{name}_{column}', scale)) for name in
            ('verbs', 'tcp')]


def shares(polls):
    """{name: (user, system, idle)}, seconds of a processor, one message at once."""
    mode = 'async' if polls else 'sync'
    return {f'{REPORT}:\n{row["transport"]}, ConnectX-5':
            tuple(float(row[key]) for key in ('user_s', 'sys_s', 'idle_s'))
            for row in rows('libfabric_cpu')
            if row['mode'] == mode and row['parallelism'] == '1'}
