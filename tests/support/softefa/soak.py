#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The ofi backend's conformance cases that move datagrams and read memory, again and again: over
libfabric's EFA provider on softefa, each time shuffled by another seed, every other one without
RDMA read; and beside every tenth seed, and the first, over libfabric's own providers, which have no
seed. Each case checks that what arrives is what was sent, and comes once.

usage: soak.py BUILD_DIRECTORY [FIRST_SEED LAST_SEED [JOBS]]

Without seeds: 1, or with RIPC_TEST_FULL=1 those up to 1,000. JOBS seeds run at a time (default:
twice as many as there are processors, as the cases wait most of the time).
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run')
NATIVE = ('tcp;ofi_rxm', 'sockets')
NATIVE_EVERY = 10
SKIPPED = 77


class Soak:
    def __init__(self, build):
        self.build = build
        self.folder = tempfile.mkdtemp()
        self.counters = os.path.join(self.folder, 'counters')
        self.lock = threading.Lock()
        self.checks = {}  # provider: cases that passed
        self.failures = []

    def run(self, words, provider, case, *more):
        """One group of cases; False where this machine has no such provider."""
        program = os.path.join(self.build, 'tests/conformance/conformance-ofi')
        done = subprocess.run([*words, program, provider, *more], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              env=dict(os.environ, CK_RUN_CASE=case, CK_DEFAULT_TIMEOUT='120'))
        output = done.stdout.decode(errors='replace')
        ran = re.search(r'Checks: (\d+), Failures: 0, Errors: 0', output)
        if done.returncode == SKIPPED:
            return False
        with self.lock:
            if done.returncode or not ran or ran.group(1) == '0':
                self.failures.append(f'{" ".join(words)} {provider} {case}: {done.returncode}')
                print(output, flush=True)
            else:
                self.checks[provider] = self.checks.get(provider, 0) + int(ran.group(1))
        return True

    def efa(self, seed):
        words = [RUN, '--build', self.build, '--seed', str(seed), '--shuffle', '50',
                 '--set', f'FABRIC=soak{os.getpid()}-{seed}', '--counters', self.counters]
        if seed % 2 == 0:
            return self.run([*words, '--no-read', '--'], 'efa', 'datagram')
        return (self.run([*words, '--'], 'efa', 'datagram', 'reads') and
                self.run([*words, '--'], 'efa', 'read', 'reads'))

    def native(self):
        for provider in NATIVE:
            self.run([], provider, 'datagram')

    def seed(self, seed, first):
        if not self.efa(seed):
            return False
        if seed == first or seed % NATIVE_EVERY == 0:
            self.native()
        return True

    def reordered(self):
        with open(self.counters) as file:
            return sum(int(n) for n in re.findall(r' reordered=(\d+)', file.read()))

    def close(self):
        shutil.rmtree(self.folder)


def main():
    full = os.environ.get('RIPC_TEST_FULL', '0') != '0'
    first, last = (int(word) for word in sys.argv[2:4] or (1, 1000 if full else 1))
    jobs = int(sys.argv[4]) if len(sys.argv) > 4 else 2 * os.cpu_count()
    soak = Soak(os.path.abspath(sys.argv[1]))
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        runs = [pool.submit(soak.seed, seed, first) for seed in range(first, last + 1)]
        for n, run in enumerate(runs, 1):
            if not run.result():
                print('skipped: this libfabric has no EFA provider')
                return SKIPPED
            if n % 10 == 0 or n == len(runs):
                print(f'{n} seeds from {first} on: passed {soak.checks}, reordered '
                      f'{soak.reordered()}, failed {len(soak.failures)}', flush=True)
        for failure in soak.failures:
            print('failed:', failure)
        if soak.reordered() == 0:
            print('failed: nothing was reordered')
        return 1 if soak.failures or soak.reordered() == 0 else 0
    finally:
        pool.shutdown(cancel_futures=True)
        soak.close()


if __name__ == '__main__':
    sys.exit(main())
