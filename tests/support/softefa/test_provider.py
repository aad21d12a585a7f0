#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
libfabric's own EFA provider on softefa: it lists the devices, and its fi_pingpong runs over RDM and
DGRAM endpoints with what it receives compared, shuffled by several seeds, with and without RDMA
read, with short queues, and with a partner that dies.

usage: test_provider.py BUILD_DIRECTORY [unittest arguments]
"""
import glob
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.getcwd()
RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run')
DEADLINE_S = 240  # far beyond what any command here takes
PINGPONG = ('fi_pingpong', '-p', 'efa')


def missing():
    """Why this machine cannot run the tests, or None."""
    for name in ('fi_info', 'fi_pingpong'):
        if not shutil.which(name):
            return f'there is no {name} (libfabric-bin)'
    if not os.path.exists(os.path.join(BUILD, 'tests/support/softefa/libsoftefa.so')):
        return 'softefa was not built: infiniband/efadv.h was missing'
    done = subprocess.run(['ldd', shutil.which('fi_info')], stdout=subprocess.PIPE)
    if b'libefa' not in done.stdout:
        return 'this libfabric has no EFA provider'
    return None


def environment(**settings):
    """Ours, with nothing of softefa's or the provider's but these settings."""
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(('SOFTEFA_', 'FI_'))}
    return dict(inherited, **{f'SOFTEFA_{name}': str(value) for name, value in settings.items()})


def command(*words):
    return [RUN, '--build', BUILD, '--', *words]


def free_port():
    """A port that the kernel gives to nobody by itself, as it is bound a little later."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(('127.0.0.1', random.randrange(10000, 20000)))
                return probe.getsockname()[1]
            except OSError:
                continue


def is_listening(port):
    """Without connecting, as the server would take that for its partner."""
    wanted = ':%04X' % port
    for name in ('/proc/net/tcp', '/proc/net/tcp6'):
        with open(name) as table:
            for line in table:
                words = line.split()
                if words[1].endswith(wanted) and words[3] == '0A':
                    return True
    return False


def names_in_use(fabric):
    with open('/proc/net/unix') as table:
        return [line for line in table if f'@softefa/{fabric}/' in line]


class Pair:
    """fi_pingpong's server and client, each with its counters in a file."""

    def __init__(self, *arguments, **settings):
        self.folder = tempfile.mkdtemp()
        self.counters = os.path.join(self.folder, 'counters')
        self.port = free_port()
        self.fabric = 'test%d' % self.port
        self.environment = environment(FABRIC=self.fabric, COUNTERS=self.counters,
                                       HOST=self.port, **settings)
        self.words = [*PINGPONG, *arguments]
        self.server = self.start('-B', str(self.port))
        end = time.monotonic() + DEADLINE_S
        while not is_listening(self.port) and self.server.poll() is None:
            if time.monotonic() > end:
                raise RuntimeError('the server does not listen')
            time.sleep(0.02)  # between looks: there is nothing to be woken by
        self.client = self.start('-P', str(self.port), '127.0.0.1')

    def start(self, *more):
        output = open(os.path.join(self.folder, 'output'), 'ab')
        with output:
            return subprocess.Popen(command(*self.words, *more), env=self.environment,
                                    stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def output(self):
        with open(os.path.join(self.folder, 'output'), errors='replace') as file:
            return file.read()

    def count(self):
        """Sums over both processes."""
        sums = {}
        with open(self.counters) as file:
            for name, value in re.findall(r' (\w+)=(\d+)', file.read().replace(' pid=', '')):
                sums[name] = sums.get(name, 0) + int(value)
        return sums

    def close(self):
        for process in (self.client, self.server):
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.folder)

    def regions(self):
        """
        Files that the provider has left for its transfers within a host, by the name of its GID.
        """
        gid = 'fe80::2ef:a0ff:fe%02x:%x_' % (self.port >> 8, (self.port & 255) << 8)
        return glob.glob(f'/dev/shm/{gid}*')


class Provider(unittest.TestCase):
    def pingpong(self, *arguments, **settings):
        """Runs it to its end; returns the counters of both processes together."""
        pair = Pair(*arguments, **settings)
        try:
            for process in (pair.client, pair.server):
                self.assertEqual(process.wait(DEADLINE_S), 0, pair.output())
            self.assertEqual(names_in_use(pair.fabric), [])
            return pair.count()
        finally:
            pair.close()

    def test_lists_devices(self):
        done = subprocess.run(command('fi_info', '-p', 'efa'), env=environment(DEVICES=2),
                              stdout=subprocess.PIPE, timeout=DEADLINE_S, check=True)
        listed = done.stdout.decode()
        for name in ('softefa_0-rdm', 'softefa_0-dgrm', 'softefa_1-rdm', 'softefa_1-dgrm'):
            self.assertIn(name, listed)

    def test_lists_none(self):
        done = subprocess.run(command('fi_info', '-p', 'efa'), env=environment(DEVICES=0),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=DEADLINE_S)
        self.assertNotEqual(done.returncode, 0)

    def test_short_messages(self):
        for size in (1, 4096, 8760):
            with self.subTest(size=size):
                counted = self.pingpong('-e', 'rdm', '-c', '-I', '100', '-S', str(size))
                self.assertGreaterEqual(counted['received'], 200)

    def test_long_messages_shuffled(self):
        for seed in range(1, 4):
            with self.subTest(seed=seed):
                counted = self.pingpong('-e', 'rdm', '-c', '-I', '10', '-S', '500000',
                                        SEED=seed, SHUFFLE=50, HOLD_US=2000, RDMA_READ=0)
                self.assertGreater(counted['reordered'], 50)
                self.assertEqual(counted['reads'], 0)

    def test_medium_messages_shuffled(self):
        for seed in range(1, 4):
            with self.subTest(seed=seed):
                counted = self.pingpong('-e', 'rdm', '-c', '-I', '50', '-S', '60000',
                                        SEED=seed, SHUFFLE=50, HOLD_US=2000)
                self.assertGreater(counted['reordered'], 50)

    def test_long_messages_by_read(self):
        counted = self.pingpong('-e', 'rdm', '-c', '-I', '10', '-S', '1048576')
        self.assertGreaterEqual(counted['reads'], 20)
        self.assertGreaterEqual(counted['read_bytes'], 20 << 20)

    def test_datagrams(self):
        for size in (1, 8192):
            with self.subTest(size=size):
                counted = self.pingpong('-e', 'dgram', '-c', '-I', '100', '-S', str(size))
                self.assertEqual(counted['ud_lost'], 0)

    def test_short_send_queue(self):
        counted = self.pingpong('-e', 'rdm', '-c', '-I', '10', '-S', '500000',
                                SQ_WR=4, RDMA_READ=0)
        self.assertGreater(counted['sent'], 1000)

    def test_short_receive_queue(self):
        counted = self.pingpong('-e', 'rdm', '-c', '-I', '10', '-S', '500000',
                                RQ_WR=4, RDMA_READ=0)
        self.assertGreater(counted['rnr_received'], 0)

    def test_slow_network(self):
        counted = self.pingpong('-e', 'rdm', '-c', '-I', '10', '-S', '60000', DELAY_US=300)
        self.assertGreater(counted['received'], 100)

    def test_dead_partner(self):
        pair = Pair('-e', 'rdm', '-I', '100000000', '-S', '64', UNRESPONSIVE_MS=50)
        try:
            end = time.monotonic() + DEADLINE_S
            while len(names_in_use(pair.fabric)) < 2 and time.monotonic() < end:
                time.sleep(0.02)  # between looks: there is nothing to be woken by
            pair.server.kill()
            pair.server.wait()
            self.assertLess(len(names_in_use(pair.fabric)), 2)
            # The process may notice by its connection for control, too: its end is the result.
            self.assertNotEqual(pair.client.wait(DEADLINE_S), 0, pair.output())
            self.assertEqual(names_in_use(pair.fabric), [])
            self.assertEqual(pair.regions(), [])
        finally:
            pair.close()


if __name__ == '__main__':
    why = missing()
    if why:
        print('skipped:', why)
        sys.exit(77)
    unittest.main()
