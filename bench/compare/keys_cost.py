#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The costs of keys, compared with runs without keys: round trips of 64 and 1,400 bytes over UDP,
both ends spinning; long messages of 80 MiB, also beside TLS 1.3 over TCP
(bench/compare/tls_stream.c; the kernel seals, if it can); a handshake's processor time, and a
partner's memory for keys (tests/unit/core/keys/handshakes.c).

Runs are interleaved: open, keys, and TLS in turns, and each figure is the median of what
neighbouring runs yield, with the lowest and the highest of them. Says what load the machine had,
and exits with 1 if a limit is not kept.

usage: bench/compare/keys_cost.py [BUILD] [--rounds N] [--json] [CASE...]
  CASE   64 1400 longs handshake memory (all)
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MIB80 = 80 << 20
# Name, unit, limit, and whether less is better.
LIMITS = {'64': ('64 B round trip, more than open', 'us', 0.8, True),
          '1400': ('1,400 B round trip, more than open', 'us', 1.5, True),
          'open': ('80 MiB longs, part of open', '', 0.6, False),
          'tls': ('80 MiB longs, times TLS 1.3', '', 1.0, False),
          'initiator_us': ('handshake, processor of the initiator', 'us', 300, True),
          'responder_us': ('handshake, processor of the responder', 'us', 300, True),
          'bytes_each': ('memory of a partner, more than open', 'B', 256, True)}
TIMEOUT_S = 300


def arguments():
    parser = argparse.ArgumentParser(description='costs of keys')
    parser.add_argument('build', nargs='?', default='build')
    parser.add_argument('cases', nargs='*')
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--count', type=int, default=20000, help='round trips of a run')
    parser.add_argument('--json', action='store_true')
    args = parser.parse_intermixed_args()
    known = ['64', '1400', 'longs', 'handshake', 'memory']
    if args.build in known:
        args.cases.insert(0, args.build)
        args.build = 'build'
    if set(args.cases) - set(known):
        parser.error(f'no such case: {" ".join(set(args.cases) - set(known))}')
    args.cases = args.cases or known
    return args


def run(args, *command, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith('RIPC_')}
    command = [os.path.join(args.build, command[0]), *map(str, command[1:])]
    done = subprocess.run(command,
                          check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, text=True,
                          env=dict(env, **variables))
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(args, keys, *options):
    """The median of one run of ripc-bench, with keys or ('') without."""
    variables = {'RIPC_KEYS': keys} if keys else {}
    result, = run(args, 'bench/ripc-bench', *options, '--backend', 'udp', '--vs', 'none',
                  '--pairs', 1, '--json', **variables)
    if not result['path'].startswith('udp/') or result['ripc']['wrong']:
        sys.exit(f'keys_cost: not what was to be measured: {result}')
    return result['ripc']['median']


def latency(args, keys, size):
    def once(with_keys):
        return ours(args, with_keys, 'latency', '--spin', 1000, '--pin', '0,1', '--size', size,
                    '--count', args.count)
    pairs = [(once(''), once(keys)) for _ in range(args.rounds)]
    return {size: [sealed - bare for bare, sealed in pairs]}, {
        f'{size} B, us, open': [bare for bare, _ in pairs],
        f'{size} B, us, keys': [sealed for _, sealed in pairs]}


def longs(args, keys):
    def once(with_keys):
        return ours(args, with_keys, 'bandwidth', '--size', MIB80, '--count', 5)

    def tls():
        if not os.path.exists(os.path.join(args.build, 'bench/compare/tls_stream')):
            return None
        results = run(args, 'bench/compare/tls_stream', MIB80, 5)
        kernel.update(result['ktls'] for result in results)
        return statistics.median(result['mbs'] for result in results)
    kernel = set()
    runs = [(once(''), once(keys), tls()) for _ in range(args.rounds)]
    raw = {'80 MiB, MB/s, open': [bare for bare, _, _ in runs],
           '80 MiB, MB/s, keys': [sealed for _, sealed, _ in runs]}
    ratios = {'open': [sealed / bare for bare, sealed, _ in runs]}
    if runs[0][2]:
        how = 'by the kernel' if True in kernel else '(no kTLS in this kernel)'
        raw[f'80 MiB, MB/s, TLS 1.3 {how}'] = [rate for _, _, rate in runs]
        ratios['tls'] = [sealed / rate for _, sealed, rate in runs]
    return ratios, raw


def handshakes(args, *names):
    rounds, partners = (1, 10000) if 'bytes_each' in names else (args.rounds, 1)
    results = [result for _ in range(rounds)
               for result in run(args, 'tests/unit/handshakes', 400, partners)]
    return {name: [result[name] for result in results] for name in names}, {}


def median_of(values):
    return f'{statistics.median(values):9.2f} ({min(values):.2f} to {max(values):.2f})'


def report(figures, raw, load):
    bad = 0
    for name, values in raw.items():
        print(f'{name:52} {median_of(values)}')
    for name, values in figures.items():
        what, unit, limit, less = LIMITS[name]
        kept = statistics.median(values) <= limit if less else statistics.median(values) >= limit
        bad += not kept
        print(f'{what:52} {median_of(values)} {unit}, limit {limit}: '
              f'{"kept" if kept else "NOT KEPT"}')
    print(f'load of {os.cpu_count()} processors: {load[0]:.1f} before, {load[1]:.1f} after')
    return bad


def main():
    args = arguments()
    figures, raw, load = {}, {}, [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix='ripc-keys-') as folder:
        keys = os.path.join(folder, 'keys')
        subprocess.run([os.path.join(args.build, 'tools/ripc'), 'key', 'new', keys], check=True,
                       stdout=subprocess.DEVNULL)
        for case in args.cases:
            found = longs(args, keys) if case == 'longs' else \
                handshakes(args, 'initiator_us', 'responder_us') if case == 'handshake' else \
                handshakes(args, 'bytes_each') if case == 'memory' else latency(args, keys, case)
            figures.update(found[0])
            raw.update(found[1])
    load.append(os.getloadavg()[0])
    if args.json:
        print(json.dumps({'figures': figures, 'raw': raw, 'load': load}))
        return 0
    return 1 if report(figures, raw, load) else 0


if __name__ == '__main__':
    sys.exit(main())
