#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
bench/plot, with made-up figures of each test of ripc-bench: pictures come out, they say what their
axes are, and the same input gives the same bytes; what is malformed is named by file and line.

usage: test_plot.py ROOT [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.getcwd()
PLOT = os.path.join(ROOT, 'bench/plot')
MACHINE = {'machine': {'processor': 'Model T', 'kernel': 'Linux 6.1', 'host': 'vm', 'load': 0.1,
                       'date': '2026-11-22T10:00:00Z', 'processors': 2, 'memory_gib': 4.0}}
US, MB, PER_S = ('us', True), ('mb_per_s', False), ('messages_per_s', False)
# test: unit, variable, sizes, values, peers, {what its pictures are called: words in them}
TESTS = {
    'latency': (US, '', [16, 1024, 8192], [0], ['tcp', 'udp'], {
        '': ['message size (bytes)', 'round trip (us)', 'lower is better', 'TCP socket',
             'libripc, UDP', 'Model T', 'EFA thesis'],
        '-percentiles': ['percentile of the messages (%)', 'round trip (us)'],
        '-ratio': ['ratio (libripc / peer)', 'message size (bytes)', '95 % interval']}),
    'idle-gap': (US, 'gap', [64], [0, 100], ['tcp'], {
        '': ['idle time before each message (us)', 'round trip (us)']}),
    'segmentation': (US, '', [7000, 7250, 7500], [0], [], {
        '': ['message size (bytes)', 'round trip (us)']}),
    'saturation': (US, 'rate', [64, 4096], [1000, 50000], ['tcp'], {
        '': ['offered load (messages/s)', 'round trip (us)', '99th percentile']}),
    'bandwidth': (MB, 'depth', [64, 1 << 20], [1, 16], ['tcp'], {
        '': ['message size (bytes)', 'bandwidth (MB/s)', 'higher is better', 'libfabric report'],
        '-depth': ['depth (messages on their way at once)'],
        '-ratio': ['ratio (libripc / peer)']}),
    'oneway': (MB, '', [65536, 1 << 20], [0], ['ripc-give', 'memcpy'], {
        '': ['message size (bytes)', 'bandwidth (MB/s)', 'buffers given']}),
    'rate': (PER_S, 'depth', [16, 4096], [1, 64], ['tcp'], {
        '': ['depth (messages on their way at once)', 'rate (messages/s)'],
        '-bytes': ['bandwidth (MB/s)', 'EFA thesis'],
        '-size': ['message size (bytes)', 'rate (messages/s)']}),
    'threads': (PER_S, 'threads', [64], [1, 4], ['tcp'], {
        '': ['threads', 'rate of all together (messages/s)'], '-bytes': ['bandwidth (MB/s)']}),
    'incast': (PER_S, 'senders', [64], [1, 4], ['tcp'], {
        '': ['senders (clients)', 'rate of all together (messages/s)']}),
    'cpu': (US, '', [64], [0], ['tcp'], {
        '': ['processor time (us/message)', 'client, user', 'softirq'],
        '-share': ['share of processor time (%)', 'idle']}),
    'partners': (US, 'partners', [64], [1, 1000], [], {
        '': ['partners (services)', 'round trip (us)']}),
    'resolve': (US, '', [64], [0], ['ripc-again', 'ripc-absent'], {
        '': ['time until the call is back (us)', 'the service is asked for']}),
    'files': (('ms', True), '', [1 << 17, 80 << 20], [0], ['tcp'], {
        '': ['file size (bytes)', 'time per file (ms)', 'LibRIPC thesis']}),
}


def numbers(median):
    return {'median': median, 'p99': 3 * median, 'cpu_us': {
        'client_user': 1.5, 'client_system': 2.5, 'server_user': 1, 'server_system': 2,
        'softirq': 0.5, 'idle': 4}}


def rows(test):
    (unit, less), variable, sizes, values, peers, _ = TESTS[test]
    for i, (size, value) in enumerate((size, value) for size in sizes for value in values):
        row = {'test': test, 'size': size, 'value': value, 'variable': variable, 'unit': unit,
               'less_is_better': less, 'pairs': 2, 'spin_us': 0, 'path': 'udp/pull to x',
               'ripc': numbers(5 + i)}
        for k, peer in enumerate(peers):
            yield {**row, 'vs': peer, 'peer': numbers(7 + i + k),
                   'ratio': {'median': 0.7, 'low': 0.6, 'high': 0.9}}
        if not peers:
            yield row


def histogram():
    points = [(10 * i, 1 - 0.5 ** i, 100, 2.0 ** i) for i in range(1, 10)]
    return 'Value Percentile TotalCount 1/(1-Percentile)\n\n' + ''.join(
        '%f %f %d %f\n' % point for point in points) + '99 1.0 100\n#[Mean = 1]\n'


def matplotlib_version():
    """The version for the Python that bench/plot wants; '': there is none."""
    with open(PLOT, encoding='utf-8') as stream:
        python = stream.readline()[2:].strip()
    if not os.path.exists(python):
        return ''
    return subprocess.run(
        [python, '-c', 'import matplotlib; print(matplotlib.__version__)'], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()


def is_drawable():
    return bool(matplotlib_version())


class Plot(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.out = os.path.join(self.top.name, 'out')

    def file(self, name, lines):
        path = os.path.join(self.top.name, name)
        with open(path, 'w', encoding='utf-8') as stream:
            stream.writelines(line if isinstance(line, str) else json.dumps(line) + '\n'
                              for line in lines)
        return path

    def plot(self, *paths, out=None):
        return subprocess.run([PLOT, *paths, '-o', out or self.out], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def results(self, test):
        _, _, sizes, values, peers, _ = TESTS[test]
        for peer in ['ripc', *peers]:
            for size in sizes:
                self.file(f'my-{test}-{test}-{peer}-{size}-{values[0]}.hgrm', [histogram()])
        return self.file(f'my-{test}.jsonl', [MACHINE, *rows(test)])

    def text_of(self, name):
        root = xml.etree.ElementTree.parse(os.path.join(self.out, name)).getroot()
        self.assertEqual(root.tag, '{http://www.w3.org/2000/svg}svg')
        return ' '.join(' '.join(root.itertext()).split())

    def test_each_test(self):
        done = self.plot(*[self.results(test) for test in TESTS])
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        for test, (_, _, _, _, _, pictures) in TESTS.items():
            for suffix, words in pictures.items():
                with open(os.path.join(self.out, f'my-{test}{suffix}.png'), 'rb') as stream:
                    self.assertEqual(stream.read(4), b'\x89PNG')
                text = self.text_of(f'my-{test}{suffix}.svg')
                for word in words + ['better']:
                    self.assertIn(word, text, f'{test}{suffix}')

    def test_no_sockets_where_there_are_none(self):
        tests = ['oneway', 'partners', 'resolve']
        self.assertEqual(self.plot(*[self.results(test) for test in tests]).returncode, 0)
        for test in tests:
            text = self.text_of(f'my-{test}.svg')
            self.assertIn('libripc polls for up to 50 us', text)
            self.assertNotIn('socket', text.lower(), test)

    def test_same_bytes(self):
        path = self.results('latency')
        found = []
        for out in ('once', 'again'):
            self.assertEqual(self.plot(path, out=os.path.join(self.top.name, out)).returncode, 0)
            with open(os.path.join(self.top.name, out, 'my-latency.svg'), 'rb') as stream:
                found.append(stream.read())
        self.assertEqual(found[0], found[1])

    def fails(self, lines, *words):
        path = self.file('bad.jsonl', lines)
        done = self.plot(path)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn('Traceback', done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_malformed(self):
        good = next(rows('latency'))
        self.fails([MACHINE, good, '{"test": \n'], 'bad.jsonl:3: not JSON')
        self.fails([good], 'bad.jsonl:1: there is no "machine"')
        self.fails([MACHINE, {**good, 'size': 'big'}], 'bad.jsonl:2: "size" cannot be "big"')
        self.fails([MACHINE, {**good, 'ripc': {}}], 'bad.jsonl:2: there is no "ripc.median"')
        self.fails([MACHINE, {key: good[key] for key in good if key != 'ratio'}],
                   'bad.jsonl:2: there is no "ratio"')
        self.fails([MACHINE, good, next(rows('rate'))], 'bad.jsonl:3: "rate" among')
        self.fails([MACHINE], 'bad.jsonl:2: nothing was measured')
        self.fails([MACHINE, {**good, 'test': 'dance'}], 'nothing is known of a test "dance"')

    def test_bad_histogram(self):
        path = self.results('latency')
        self.file('my-latency-latency-tcp-16-0.hgrm', ['Value\n', '\n', '1 2 3 x\n'])
        done = self.plot(path)
        self.assertEqual(done.returncode, 1)
        self.assertIn('my-latency-latency-tcp-16-0.hgrm:3: not four numbers', done.stderr)

    def test_others_go_on(self):
        done = self.plot(self.file('bad.jsonl', ['x\n']), self.results('resolve'))
        self.assertEqual(done.returncode, 1)
        self.assertIn('the service is asked for', self.text_of('my-resolve.svg'))


if __name__ == '__main__':
    if not is_drawable():
        print('skipped: there is no matplotlib (apt-get install python3-matplotlib)')
        sys.exit(77)
    unittest.main()
