#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Guarantees of libripc over RDMA devices, with traffic of hw-traffic and hw-peer; in a guest.

usage: traffic.py BUILD CASE siw|rxe|wire   as root in a guest of tests/system/hw/guest
       siw: between the namespaces a and b; rxe: on one host; wire-siw, wire-rxe: the same command
       in both of two guests

cases: soak      many messages of all sizes there and back, byte-exact
       kill      partners are killed while they talk, and restarted: nothing is left behind
       flap      the link goes down and up: traffic resumes within 5 s
       move      the address of a host changes: traffic resumes within 10 s
       crowd     64 partners, 16 queue pairs
       choice    without being told, over the device
       loss      1 % of the packets get lost

RIPC_TEST_FULL=1: the counts that are stated in docs/guarantees.md; else fewer.
RIPC_TEST_SEED repeats a run's random moments.
"""
import json
import os
import queue
import random
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time

FULL = os.environ.get('RIPC_TEST_FULL', '0') not in ('', '0')
PATIENCE_S = 60   # for what has no limit of its own; the guest is slow and may stand still
FORGET_S = 120    # a partner is forgotten after a minute, an idle queue pair after 20 s
SETTLE_S = 3      # and each end has its connection to the other one by then
RESUME_S = 5      # after the link is up again
MOVE_S = 12       # after the address changed: maybe 10 s of silence show it (peer_timeout_ms)
LIMIT = 16        # queue pairs
PARTNER_BYTES = 704  # 607 over RoCE; 64 more for each partner that was refused a long message
KINDS = ('qp', 'cq', 'mr', 'pd', 'cm_id', 'srq', 'ctx')


class Failure(Exception):
    pass


def check(truth, what):
    if not truth:
        raise Failure(what)


def tell(*words):
    """Counted events: tests/system/hw/lib/cases shows them."""
    print('figures:', *words)


def wait_for(condition, what, seconds=PATIENCE_S):
    until = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < until, what)
        time.sleep(0.05)


def run(*command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    check(done.returncode == 0, f'{" ".join(command)}: {done.stdout.strip()}')
    return done.stdout


class Program:
    """One of ours. A thread reads its output, so that waiting for it has a limit."""

    def __init__(self, setting, host, *command, **env):
        self.name = f'{host}: {os.path.basename(command[0])}'
        self.said, self.lines = [], queue.Queue()
        self.popen = subprocess.Popen(
            [*setting.enter(host), *[str(part) for part in command]], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, **setting.env, **env))
        threading.Thread(target=self.read, daemon=True).start()
        setting.programs.append(self)

    def read(self):
        for line in self.popen.stdout:
            self.lines.put(line.rstrip('\n'))
        self.lines.put(None)

    def line(self, wanted, seconds=PATIENCE_S):
        """The next line that begins so, without that beginning."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(until - time.monotonic(), 0.001))
            except queue.Empty:
                raise Failure(f'{self.name} does not say "{wanted}" within {seconds} s:\n'
                              + '\n'.join(self.said[-20:])) from None
            if line is None:
                self.lines.put(None)
                raise Failure(f'{self.name} ended with {self.popen.wait()} instead of saying '
                              f'"{wanted}":\n' + '\n'.join(self.said[-20:]))
            self.said.append(line)
            if line.startswith(wanted):
                return line[len(wanted):].strip()

    def last_words(self):
        while (line := self.lines.get()) is not None:
            self.said.append(line)
        self.lines.put(None)
        return self.said[-20:]

    def tell(self, text):
        try:
            self.popen.stdin.write(text + '\n')
            self.popen.stdin.flush()
        except BrokenPipeError:
            self.line('goodbye')  # says how it has ended

    def json(self):
        return json.loads('{' + self.line('{'))

    def end(self, seconds=PATIENCE_S):
        """Closes its input and waits until it has ended well."""
        self.popen.stdin.close()
        status = self.popen.wait(seconds)
        words = '\n'.join(self.last_words())
        check(status == 0, f'{self.name} ended with {status}:\n{words}')

    def kill(self):
        self.popen.kill()
        self.popen.wait()


class Setting:
    """Where the two ends are: hosts "a" and "b", which may be the same one."""

    def __init__(self, build, name):
        self.build, self.name = build, name
        self.programs = []
        self.env = {'RIPC_BACKENDS': self.backend()}

    def backend(self):
        return 'rdmacm' if 'siw' in self.name else 'verbs'

    def enter(self, host):
        return ['ip', 'netns', 'exec', host] if self.name == 'siw' else []

    def start(self, host, program, *arguments, **env):
        return Program(self, host, f'{self.build}/{program}', *arguments, **env)

    def traffic(self, host, *arguments, **env):
        return self.start(host, 'tests/system/hw/hw-traffic', *arguments, **env)

    def peer(self, host, *arguments):
        ids = {'a': (1001, 1002), 'b': (1002, 1001)}[host]
        peer = self.start(host, 'tests/system/hw/hw-peer', '--id', ids[0], '--to', ids[1],
                          *arguments)
        peer.incarnation = peer.line('ready')
        return peer

    def ended_badly(self):
        """
        Failures of processes that were not killed: a failed process may have waited for a killed
        one.
        """
        return [program for program in self.programs
                if program.popen.poll() not in (None, 0, -signal.SIGKILL)]

    def stop(self):
        for program in self.programs:
            if program.popen.poll() is None:
                program.kill()


def resources(setting):
    """The number of objects of each kind, for each device of the case."""
    return sorted((entry for entry in json.loads(run('rdma', '-j', 'resource', 'show'))
                   if entry['ifname'].startswith(setting.name)), key=lambda entry: entry['ifname'])


def entries(kind):
    return json.loads(run('rdma', '-j', 'resource', 'show', kind) or '[]')


class Owned:
    """The objects of one process on a device. Objects of its helper threads do not name the
    process: with siw each host has a device of its own, on rxe the protection domains lead to its
    context."""

    def __init__(self, setting, host, pid):
        self.device = f'siw{host}' if setting.name == 'siw' else 'rxe0'
        self.contexts = None
        if setting.name != 'siw':
            self.contexts = {entry['ctxn'] for entry in self.on_device('ctx')
                             if entry['pid'] == pid}
            check(self.contexts, f'process {pid} has no context')

    def on_device(self, kind):
        return [entry for entry in entries(kind) if entry['ifname'] == self.device and
                entry.get('comm') != 'ib_core']

    def domains(self):
        return {entry['pdn'] for entry in self.on_device('pd') if entry['ctxn'] in self.contexts}

    def of(self, kind):
        if self.contexts is None:
            return self.on_device(kind)
        if kind == 'qp':
            # A domain may come or go meanwhile.
            before, found, after = self.domains(), self.on_device(kind), self.domains()
            return [entry for entry in found if entry.get('pdn') in before | after]
        return [entry for entry in self.on_device(kind) if entry.get('ctxn') in self.contexts]

    def counts(self):
        kinds = ('qp', 'cq', 'pd') if self.contexts else KINDS
        return {kind: len(self.of(kind)) for kind in kinds}


# ---- cases -------------------------------------------------------------------------------------

def soak(setting):
    counts = ('--shorts', 50000, '--longs', 5000) if FULL else ('--shorts', 3000, '--longs', 200)
    server = setting.traffic('a', 'serve', '--id', 77)
    server.line('ready')
    client = setting.traffic('b', 'soak', '--to', 77, *counts, '--seed', random.getrandbits(32))
    path = client.line('path:')
    check(f'{setting.backend()}, long messages by {setting.backend()}' in path, f'path: {path}')
    tell('path:', path)
    client.end(7200)
    tell(client.said[-2])
    tell(client.said[-1])
    server.tell('')
    got = server.json()
    check(got['reads_failed'] == 0 and got['read_bytes'] > 0, f'the server counted {got}')
    server.end()


class Cycles:
    """Two peers that talk, of which one is killed and restarted again and again."""

    def __init__(self, setting):
        self.setting = setting
        self.peers = {host: setting.peer(host) for host in 'ab'}
        self.times_s, self.slowest_ms = [], 0
        self.meet('a', 'b')

    def meet(self, one, other):
        """Both ends have received messages of each other."""
        for host, partner in ((one, other), (other, one)):
            self.peers[host].line(f'from {self.peers[partner].incarnation}')

    def cycle(self, victim, survivor):
        time.sleep(random.uniform(0, 0.3))
        self.peers[victim].kill()
        began = time.monotonic()
        self.peers[victim] = self.setting.peer(victim)
        self.meet(victim, survivor)
        self.times_s.append(time.monotonic() - began)

    def block(self, victim, survivor, count):
        """Restarts one of them so often; the other one must not keep anything of them."""
        owned = Owned(self.setting, survivor, self.peers[survivor].popen.pid)
        before, since = owned.counts(), time.monotonic()
        while time.monotonic() < since + SETTLE_S:
            time.sleep(0.2)
            now = owned.counts()
            if now != before:
                before, since = now, time.monotonic()
        for _ in range(count):
            self.cycle(victim, survivor)
        until = time.monotonic() + FORGET_S
        after = owned.counts()
        while any(now > before[kind] for kind, now in after.items()):
            check(time.monotonic() < until, f'the survivor had {before} and keeps {after}')
            time.sleep(1)
            after = owned.counts()

    def end(self):
        quiet(*self.peers.values())
        for peer in self.peers.values():
            peer.popen.stdin.close()
        for peer in self.peers.values():
            self.slowest_ms = max(self.slowest_ms, peer.json()['slowest_ms'])
            peer.end()


def quiet(*peers):
    for peer in peers:
        peer.tell('quiet')
    for peer in peers:
        peer.line('quiet')


def kill(setting):
    blocks, count = (10, 20) if FULL else (2, 6)
    before = resources(setting)
    cycles = Cycles(setting)
    for i in range(blocks):
        cycles.block(*('ab' if i % 2 else 'ba'), count)
    cycles.end()
    after = resources(setting)
    check(before and after == before, f'resources before: {before}, after: {after}')
    tell(f'{len(cycles.times_s)} restarts; both heard of each other again after '
         f'{statistics.median(cycles.times_s):.1f} s (median), {max(cycles.times_s):.1f} s '
         '(most); resources are as before')


def check_tallies(ends):
    """Each delivered message arrived once; ends: (incarnation, tally) of both."""
    for (incarnation, sent), (_, got) in (ends, ends[::-1]):
        longs, shorts = got['received'].get(incarnation, (0, 0))
        most = sent['delivered'] + sent['unknown']
        check(sent['delivered'] <= longs <= most,
              f'{longs} long messages came, {sent["delivered"]} to {most} should have')
        check(shorts <= sent['shorts_sent'],
              f'{shorts} of {sent["shorts_sent"]} short messages came')
        tell(f'{sent["delivered"]} long messages delivered, {sent["unknown"]} unknown, '
             f'{sent["not_delivered"]} not; {longs} came; {shorts} of {sent["shorts_sent"]} short '
             f'ones; the longest send took {sent["slowest_ms"]} ms')


def resume(peers):
    """How long it takes until a long message of each is delivered again, in ms."""
    for peer in peers:
        peer.tell('mark')
    return max(int(peer.line('resumed')) for peer in peers)


def check_resumed(resumed_ms, limit_s, what):
    # The guest itself may have stood still once.
    slow = [ms for ms in resumed_ms if ms > limit_s * 1000]
    check(len(slow) <= (0 if FULL else 1) and max(resumed_ms) <= 4 * limit_s * 1000,
          f'traffic resumed only after {resumed_ms} ms')
    tell(f'{what}; traffic resumed after {statistics.median(resumed_ms):.0f} ms (median), '
         f'{max(resumed_ms)} ms (most)')


def flap_link(where, peers, count):
    """where: the options of ip that name the side whose link flaps."""
    resumed_ms = []
    for i in range(count):
        time.sleep(random.uniform(0.1, 0.5))
        ip, link = where[i % len(where)]
        run('ip', *ip, 'link', 'set', link, 'down')
        time.sleep(random.uniform(0.1, 1.5))
        run('ip', *ip, 'link', 'set', link, 'up')
        resumed_ms.append(resume(peers))
    check_resumed(resumed_ms, RESUME_S, f'{count} times down and up')


def talking(setting):
    """Two that have heard of each other."""
    peers = [setting.peer(host) for host in 'ab']
    for peer, other in (peers, peers[::-1]):
        peer.line(f'from {other.incarnation}')
    return peers


def end_talk(peers):
    quiet(*peers)
    for peer in peers:
        peer.popen.stdin.close()
    check_tallies([(peer.incarnation, peer.json()) for peer in peers])
    for peer in peers:
        peer.end()


def flap(setting):
    count = 100 if FULL else 10
    if setting.name.startswith('wire'):
        return flap_over_wire(setting, count)
    check(setting.name == 'siw', 'the link of rxe on one host carries nothing')
    peers = talking(setting)
    flap_link([(('-n', host), 'wire') for host in 'ab'], peers, count)
    end_talk(peers)
    return None


def path_of_ping(setting):
    """A new process must reach the partner at once, but may do so by udp at first."""
    ping = setting.start('a', 'tools/ripc', 'ping', 1002, '-c', 1)
    path = ping.line('path:')
    ping.end()
    return path


def move(setting):
    """A host has another address, where its device may not be reached; and the old one again."""
    where, link, addresses = ('-n', 'b'), 'wire', ('10.77.2.2/24', '10.77.2.3/24')
    if setting.name == 'rxe':
        where, link, addresses = (), 'rxenet', ('10.77.0.1/24', '10.77.0.3/24')
    count = 20 if FULL else 3
    setting.env['RIPC_BACKENDS'] += ',udp'
    peers = talking(setting)
    resumed_ms = []
    for old, new in (addresses, addresses[::-1]) * count:
        time.sleep(random.uniform(0.1, 1))
        run('ip', *where, 'addr', 'del', old, 'dev', link)
        run('ip', *where, 'addr', 'add', new, 'dev', link)
        resumed_ms.append(resume(peers))
    check_resumed(resumed_ms, MOVE_S, f'{2 * count} changes of address')
    wait_for(lambda: path_of_ping(setting).startswith(setting.backend()),
             f'a new process does not go back to {setting.backend()}')
    end_talk(peers)


class Meeting:
    """Steps that two guests take together, by files of the directory that they share."""

    def __init__(self, setting, case):
        self.base = f'{os.environ["LAB_SHARED"]}/{case}-{setting.name}-'
        self.first = os.uname().nodename == 'lab1'

    def put(self, step, text=''):
        new = self.base + os.uname().nodename
        with open(new, 'w', encoding='ascii') as file:
            file.write(text)
        os.rename(new, self.base + step)

    def get(self, step, seconds=PATIENCE_S):
        def done():
            check(not os.path.exists(self.base + 'failed'), 'the other guest has failed')
            return os.path.exists(self.base + step)

        wait_for(done, f'the other guest does not {step}', seconds)
        with open(self.base + step, encoding='ascii') as file:
            return file.read()


def flap_over_wire(setting, count):
    meeting = Meeting(setting, 'flap')
    if meeting.first:
        peer = setting.peer('a')
        meeting.put('ready', peer.incarnation)
        meeting.get('quiet', 3600)
        quiet(peer)
        meeting.put('quieted')
        meeting.get('end')
        peer.popen.stdin.close()
        meeting.put('tally', json.dumps(peer.json()))
        peer.end()
        return
    other = meeting.get('ready')
    peer = setting.peer('b')
    peer.line(f'from {other}')
    flap_link([((), 'siwnet' if 'siw' in setting.name else 'rxenet')], [peer], count)
    quiet(peer)
    meeting.put('quiet')
    meeting.get('quieted')
    meeting.put('end')
    peer.popen.stdin.close()
    check_tallies([(peer.incarnation, peer.json()), (other, json.loads(meeting.get('tally')))])
    peer.end()


class Sampler:
    """Lists the queue pairs of a process again and again, and keeps the most of each type. As they
    come and go while they are listed, those count that are in two lists, one after the other:
    they were all there in between."""

    def __init__(self, owned):
        self.owned, self.most, self.samples, self.going = owned, {}, 0, True
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def sample(self):
        last = set()
        while self.going:
            now = {(entry['type'], entry['lqpn']) for entry in self.owned.of('qp')}
            types = [name for name, _ in now & last]
            for name in set(types):
                self.most[name] = max(self.most.get(name, 0), types.count(name))
            self.samples += 1
            last = now

    def end(self):
        self.going = False
        self.thread.join()


def crowd(setting):
    partners, rounds, most = 64, 10 if FULL else 1, 150000
    name = setting.backend()
    server = setting.traffic('a', 'serve', '--id', 77, RIPC_OPTIONS=f'{name}.connections={LIMIT}')
    server.line('ready')
    server.tell('')
    heap_bytes = server.json()['heap_bytes']
    owned = Owned(setting, 'a', server.popen.pid)
    queues = len(owned.of('cq'))
    sampler = Sampler(owned)
    client = setting.traffic('b', 'crowd', '--to', 77, '--contexts', partners, '--rounds', rounds,
                             '--most', most, RIPC_OPTIONS=f'{name}.receives=256')
    try:
        tell(f'{partners} partners' + client.line(f'{partners} partners', 1800))
    finally:
        sampler.end()
    server.tell('')
    after = server.json()
    check(after['partners'] == partners, f'{after["partners"]} partners')
    check(after['partner_bytes'] <= PARTNER_BYTES * partners, f'{after["partner_bytes"]} bytes')
    check(after['read_bytes'] > partners * most, f'{after["read_bytes"]} bytes were read')
    check(sampler.samples >= 10, f'only {sampler.samples} samples')
    check(0 < sampler.most.get('RC', 0) <= LIMIT, f'queue pairs: {sampler.most}')
    check(len(owned.of('cq')) == queues, 'completion queues have grown')
    tell(f'queue pairs, most in {sampler.samples} samples: {sampler.most}; {queues} completion '
         f'queues; {after["partner_bytes"] / partners:.0f} bytes per partner, heap '
         f'{(after["heap_bytes"] - heap_bytes) / partners:.0f}')
    client.tell('')
    client.end()
    server.end()


def pingpong(setting, host, *arguments):
    return setting.start(host, 'examples/pingpong', '--name', 'choice', *arguments)


def ask_by_pingpong(setting, wanted):
    client = pingpong(setting, 'b', '--sizes', '1000', '--count', '20')
    path = client.line('path:')
    client.end()
    check(path.startswith(wanted + ','), f'wanted {wanted}, path: {path}')
    tell('path:', path)


def choice(setting):
    setting.env = {}
    os.environ.pop('RIPC_BACKENDS', None)
    if setting.name.startswith('wire'):
        meeting = Meeting(setting, 'choice')
        if meeting.first:
            server = pingpong(setting, 'a', '--serve')
            meeting.put('ready')
            meeting.get('end', 300)
            server.kill()
            return
        meeting.get('ready')
        ask_by_pingpong(setting, 'verbs') # before rdmacm, where both can
        meeting.put('end')
        return
    if setting.name == 'siw':
        # The module reaches every program of this kernel, whatever its namespace, and would be
        # taken first.
        run('rdma', 'link', 'delete', 'rxe0')
    server = pingpong(setting, 'a', '--serve')
    # On one host shared memory is better than any device.
    ask_by_pingpong(setting, 'rdmacm' if setting.name == 'siw' else 'shm')
    server.kill()
    if setting.name == 'siw':
        run('rdma', 'link', 'add', 'rxe0', 'type', 'rxe', 'netdev', 'rxenet')


def loss(setting):
    longs = ('soak', '--to', 77, '--shorts', 0, '--longs', 20)
    lossy = ('qdisc', 'add', 'dev', 'wire' if setting.name == 'siw' else 'rxenet', 'root', 'netem',
             'loss', '1%')
    if setting.name == 'siw':
        for host in 'ab':
            run('tc', '-n', host, *lossy)
        server = setting.traffic('a', 'serve', '--id', 77)
        server.line('ready')
        client = setting.traffic('b', *longs)
        client.end(600)
        server.end()
        for host in 'ab':
            run('tc', '-n', host, 'qdisc', 'del', 'dev', 'wire', 'root')
    else:
        meeting = Meeting(setting, 'loss')
        run('tc', *lossy)
        if meeting.first:
            server = setting.traffic('a', 'serve', '--id', 77)
            server.line('ready')
            meeting.put('ready')
            meeting.get('end', 600)
            server.end()
            run('tc', 'qdisc', 'del', 'dev', 'rxenet', 'root')
            return
        meeting.get('ready')
        client = setting.traffic('b', *longs)
        client.end(600)
        meeting.put('end')
        run('tc', 'qdisc', 'del', 'dev', 'rxenet', 'root')
    tell(client.said[-1])


CASES = {case.__name__: case for case in (soak, kill, flap, move, crowd, choice, loss)}


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in CASES or \
            sys.argv[3] not in ('siw', 'rxe', 'wire-siw', 'wire-rxe'):
        sys.exit(__doc__)
    seed = int(os.environ.get('RIPC_TEST_SEED', time.time_ns() & 0xffffffff))
    random.seed(seed)
    # A context has some descriptors, and one process has many contexts here.
    resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
    setting = Setting(sys.argv[1], sys.argv[3])
    began = time.monotonic()
    try:
        CASES[sys.argv[2]](setting)
    except (Failure, subprocess.TimeoutExpired, BrokenPipeError) as failure:
        print(f'failed (RIPC_TEST_SEED={seed}): {failure}')
        for program in setting.ended_badly():
            print(f'{program.name} ended with {program.popen.poll()}:',
                  *program.last_words(), sep='\n')
        if setting.name.startswith('wire'):
            Meeting(setting, sys.argv[2]).put('failed')
        return 1
    finally:
        setting.stop()
    tell(f'{time.monotonic() - began:.0f} s')
    return 0


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
