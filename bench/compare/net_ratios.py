#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long messages compare with TCP between two namespaces joined by veth: without loss, at 1, 10
and 30 % (of packets, both ways), and side by side on a link of 100 Mbit/s; and on long paths
(tests/system/net/relay.c): 1 Gbit/s with 40 and 100 ms and a queue of one such round trip, 10
Mbit/s with 20 ms and 1,000 packets of queue, 100 Mbit/s with 10 ms and 50 ms of queue, alone and
beside each other, also TCP's BBR if the kernel has it. In the cases beside_* the link is the
sender's own device, of whose queue TCP takes little (TCP small queues); in long_* it is on the way.

Runs are interleaved (theirs, ours, theirs, ours) and both wait until the other end has all; but at
30 % loss TCP, which stands still for longer and longer, is measured by what it gets through in
20 s, and ours by ten messages in a row. Side by side they have 12 s to settle before 20 s are
counted.
Prints a table: medians, their ratio, the lowest and highest ratio of neighbouring runs. Needs root.

usage: net_ratios.py [BUILD] [--rounds N] [--congestion NAME] [--json] [CASE...]
  BUILD         the build directory (default: build)
  CASE          loss_0 loss_1 loss_10 loss_30 beside_5 beside_50 long_40 long_100 long_10mbit
                long_100mbit, or how some of them begin
  --precedence  what is measured goes before all other programs, where others use the machine
  --congestion  TCP's congestion control (default: the machine's)
"""
import argparse
import json
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests/system/net'))
import netlab  # noqa: E402
import xfer  # noqa: E402

# Size of a message, and what the ratio must be and is wanted to be.
LOSSES = {0: ('80M', 0.8, 1.1), 1: ('80M', 0.5, 1), 10: ('20M', 1, 5), 30: ('40M', 5, 50)}
SIZES = {'80M': 80 << 20, '20M': 20 << 20, '40M': 40 << 20}
STREAM_S = 20
MESSAGES = 10  # one after the other, beside such a stream
# BBR takes the shortest round trip of the last 10 s for that of the empty link.
SETTLE_S = 12
BESIDE_S = 20
# Mbit/s, round trip in ms, packets of queue (1,500 bytes each).
LONG = {'long_40': (1000, 40, 3333), 'long_100': (1000, 100, 8333), 'long_10mbit': (10, 20, 1000),
        'long_100mbit': (100, 10, 417)}
LONG_FLOWS = ('ours', 'cubic', 'bbr', 'ours cubic', 'ours bbr', 'cubic bbr')


def one(process, server=None):
    """Has one message sent; returns its MB/s when the receiver (server: ours) has checked it."""
    process.popen.stdin.write('go\n')
    process.popen.stdin.flush()
    sent = process.json()
    netlab.check(sent.get('status', 0) == 0, f'not delivered: {sent}')
    if server:
        netlab.check(server.json()['right'], 'wrong bytes arrived')
    return sent['mbs']


def messages_in_a_row(process, server):
    """MB/s of MESSAGES in a row."""
    return statistics.harmonic_mean([one(process, server) for _ in range(MESSAGES)])


def start_tcp(a, b, size, congestion):
    listener = b.start(netlab.program('tcpxfer'), 'serve', 5001, SIZES[size])
    listener.line('ready')
    return a.start(netlab.program('tcpxfer'), 'send', b.addresses[4], 5001, SIZES[size],
                   TCP_CONGESTION=congestion)


def stream(a, b, port, congestion):
    """The throughput of a new TCP connection in STREAM_S seconds, MB/s."""
    sink = b.start(netlab.program('tcpxfer'), 'sink', port, STREAM_S)
    sink.line('ready')
    flow = a.start(netlab.program('tcpxfer'), 'flow', b.addresses[4], port, STREAM_S + 5,
                   TCP_CONGESTION=congestion)
    rate = sink.json()['mbs']
    flow.stop()
    return rate


def summary(case, runs, must, want):
    theirs, ours = (statistics.median(run[i] for run in runs) for i in range(2))
    ratios = [run[1] / max(run[0], 0.001) for run in runs]
    return {'case': case, 'tcp_mbs': theirs, 'ours_mbs': ours, 'ratio': ours / max(theirs, 0.001),
            'lowest': min(ratios), 'highest': max(ratios), 'must': must, 'want': want,
            'runs': runs}


def loss(percent, options):
    size, must, want = LOSSES[percent]
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device_a, device_b = lab.link(a, b, segment=percent > 0)
        a.lose(device_a, percent)
        b.lose(device_b, percent)
        server = xfer.serve(b)
        ours = xfer.send(a, size, '--on-line')
        # Once to warm up, under the loss: what TCP learned without it would last for a while.
        one(ours, server)
        if percent < 30:
            theirs = start_tcp(a, b, size, options.congestion)
            one(theirs)
            runs = [(one(theirs), one(ours, server)) for _ in range(options.rounds)]
        else:
            runs = [(stream(a, b, 5001 + i, options.congestion), messages_in_a_row(ours, server))
                    for i in range(max(options.rounds // 2, 1))]
        ours.end()
    return summary(f'{size}iB at {percent} % loss', runs, must, want)


def counters(host, device):
    """Bytes of IP packets that have come in, by protocol."""
    found = json.loads(host.run('nft', '-j', 'list', 'table', 'netdev', f'count_{device}'))
    rules = [entry['rule']['expr'] for entry in found['nftables'] if 'rule' in entry]
    return [part['counter']['bytes'] for rule in rules for part in rule if 'counter' in part]


def beside_once(options, latency_ms):
    """Both fill a link of 100 Mbit/s; returns MB/s of TCP and ours once they have settled."""
    lasts = SETTLE_S + BESIDE_S
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device_a, device_b = lab.link(a, b)
        a.rate(device_a, 100, latency_ms)
        b.nft(f'add table netdev count_{device_b}\n'
              f'add chain netdev count_{device_b} c {{ type filter hook ingress device '
              f'"{device_b}" priority 0; }}\n'
              f'add rule netdev count_{device_b} c meta l4proto tcp counter\n'
              f'add rule netdev count_{device_b} c meta l4proto udp counter\n')
        listener = b.start(netlab.program('tcpxfer'), 'sink', 5001, 2 * lasts)
        listener.line('ready')
        a.start(netlab.program('tcpxfer'), 'flow', b.addresses[4], 5001, lasts + 4,
                TCP_CONGESTION=options.congestion)
        xfer.serve(b)
        xfer.send(a, '500M', '--timeout-ms', 100000).line('found')
        time.sleep(SETTLE_S)
        before, began = counters(b, device_b), time.monotonic()
        time.sleep(BESIDE_S)
        after, took = counters(b, device_b), time.monotonic() - began
        return [(new - old) / took / 1e6 for old, new in zip(before, after)]


def beside(options, latency_ms):
    runs = [beside_once(options, latency_ms) for _ in range(max(options.rounds // 3, 1))]
    row = summary(f'beside TCP, 100 Mbit/s, {latency_ms} ms queue', runs, 0, 0)
    total = statistics.median(sum(run) for run in runs)
    row.update(filled=total / 12.5, tcp_share=row['tcp_mbs'] / total)
    return row


def count_ports(host, device, ports):
    """Counts what comes in to the TCP ports, and by UDP."""
    rules = ''.join(f'add rule netdev count_{device} c {rule} counter\n' for rule in
                    [f'tcp dport {port}' for port in ports] + ['meta l4proto udp'])
    host.nft(f'add table netdev count_{device}\n'
             f'add chain netdev count_{device} c {{ type filter hook ingress device '
             f'"{device}" priority 0; }}\n' + rules)


def flow_start(a, b, flow, port):
    if flow == 'ours':
        xfer.serve(b, '--no-check')
        xfer.send(a, '300M', '--pieces', 1000, '--depth', 2, '--timeout-ms',
                  200000).line('found')
        return
    lasts = SETTLE_S + BESIDE_S + 60
    b.start(netlab.program('tcpxfer'), 'sink', port, lasts).line('ready')
    a.start(netlab.program('tcpxfer'), 'flow', b.addresses[4], port, lasts, TCP_CONGESTION=flow)


def long_once(name, flows):
    """MB/s of each flow on the wire once they have settled, and how long packets were queued."""
    mbit, rtt_ms, queue = LONG[name]
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'), '--delay-us', rtt_ms * 500,
                          '--rate-mbit', mbit, '--queue-packets', queue)
        for host in (a, b):
            # Without this, TCP's windows end at 4 and 6 MB.
            host.run('sysctl', '-q', '-w', 'net.ipv4.tcp_rmem=4096 131072 67108864',
                     'net.ipv4.tcp_wmem=4096 131072 67108864')
        ports = [5001 + i for i, flow in enumerate(flows) if flow != 'ours']
        count_ports(b, 'relay0', ports)
        for i, flow in enumerate(flows):
            flow_start(a, b, flow, 5001 + i)
        time.sleep(SETTLE_S)
        before, began = counters(b, 'relay0'), time.monotonic()
        time.sleep(BESIDE_S)
        after, took = counters(b, 'relay0'), time.monotonic() - began
        rates = [(new - old) / took / 1e6 for old, new in zip(before, after)]
        theirs, ours = iter(rates[:-1]), rates[-1]
        return [ours if flow == 'ours' else next(theirs) for flow in flows], relay.end()['to_b']


def long_path(name, options):
    mbit, rtt_ms, queue = LONG[name]
    found = []
    with open('/proc/sys/net/ipv4/tcp_available_congestion_control', encoding='ascii') as names:
        has = names.read().split()
    for flows in (flows.split() for flows in LONG_FLOWS):
        if any(flow not in ('ours', *has) for flow in flows):
            print(f'no {" ".join(flows)}: this kernel has {" ".join(has)}', file=sys.stderr)
            continue
        rates, queue_us = long_once(name, flows)
        found.append({'case': f'{mbit} Mbit/s, {rtt_ms} ms, {queue} packets', 'flows': flows,
                      'mbs': rates, 'filled': sum(rates) * 8 / mbit, **queue_us,
                      'load': os.getloadavg()[0]})
        if not options.json:
            show_long(found[-1])
    return found


def show_long(row):
    flows = ', '.join(f'{flow} {rate:.2f}' for flow, rate in zip(row['flows'], row['mbs']))
    median, p99, most = (row[f'wait_{key}_us'] / 1000 for key in ('median', 'p99', 'longest'))
    print(f'{row["case"]:34} {flows:28} filled {row["filled"]:.0%}, queue {median:.1f} ms, '
          f'p99 {p99:.1f}, most {most:.1f}; load {row["load"]:.0f}', flush=True)


def show(row):
    print(f'{row["case"]:38} {row["tcp_mbs"]:9.2f} {row["ours_mbs"]:9.2f} {row["ratio"]:8.2f} '
          f'{row["lowest"]:8.2f} {row["highest"]:8.2f}  ', end='')
    if 'filled' in row:
        print(f'filled {row["filled"]:.0%} (must 85 %), TCP has {row["tcp_share"]:.0%} (must 30 %)')
    else:
        print(f'must {row["must"]}, want {row["want"]}')
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', nargs='?', default=os.path.join(ROOT, 'build'))
    parser.add_argument('cases', nargs='*')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--congestion')
    parser.add_argument('--json', action='store_true')
    parser.add_argument('--precedence', action='store_true')
    options = parser.parse_intermixed_args()
    netlab.PROGRAMS = os.path.join(options.build, 'tests/system/net')
    netlab.require('nft', 'tc', 'ethtool')
    if options.precedence:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    cases = {f'loss_{percent}': lambda percent=percent: loss(percent, options)
             for percent in LOSSES}
    cases.update({f'beside_{ms}': lambda ms=ms: beside(options, ms) for ms in (5, 50)})
    cases.update({name: lambda name=name: long_path(name, options) for name in LONG})
    wanted = [name for name in cases if not options.cases or
              any(name.startswith(case) for case in options.cases)]
    if not options.json:
        print(f'{"MB/s":38} {"TCP":>9} {"ours":>9} {"ratio":>8} {"lowest":>8} {"highest":>8}')
    rows = []
    for name in wanted:
        row = cases[name]()
        rows += row if name in LONG else [row]
        if not options.json and name not in LONG:
            show(row)
    if options.json:
        print(json.dumps(rows))


if __name__ == '__main__':
    main()
