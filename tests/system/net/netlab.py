# SPDX-License-Identifier: BSD-3-Clause
"""Small networks out of namespaces and veth pairs, for tests over the real kernel path.

A Lab owns namespaces ("hosts"), what links them, and the programs started in them; leaving its
`with` block, an exception, SIGTERM or the end of the program takes all of it away. Interfaces are
made inside the namespaces, so nothing of the machine's own network is touched. Names contain the
process ID; what a killed run left is removed by the next one.

There is no netem in many kernels, so: loss is nftables' numgen in the ingress hook of the
receiving interface; a rate is tbf; delay, reordering, duplicates and altered packets come from
relay.c. Loss would hit whole offloaded super-packets, so Host.segment() switches segmentation
offload off where packets are to be lost one by one.
"""
import atexit
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

PREFIX = 'ripcnet'
SKIP = 77
PR_SET_PDEATHSIG = 1
PROGRAMS, FULL = '.', False
LIBC = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A check did not hold, or a command failed."""


def skip(why):
    print(f'skipped: {why}')
    sys.exit(SKIP)


def run(*command, stdin=None):
    """Runs a command to its end; returns its output."""
    done = subprocess.run([str(part) for part in command], input=stdin, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failure(f'{" ".join(str(part) for part in command)}: {done.stdout.strip()}')
    return done.stdout


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def require(*programs):
    """Ends the test as skipped where namespaces cannot be made."""
    if os.geteuid() != 0:
        skip('network namespaces need root')
    for program in ('ip',) + programs:
        if not shutil.which(program):
            skip(f'there is no program "{program}"')
    name = f'{PREFIX}-{os.getpid()}-probe'
    try:
        run('ip', 'netns', 'add', name)
    except Failure as failure:
        skip(f'no network namespaces: {failure}')
    try:
        run('ip', '-n', name, 'link', 'add', 'name', 'probe', 'type', 'veth', 'peer', 'name', 'other')
    except Failure as failure:
        skip(f'no veth: {failure}')
    finally:
        subprocess.run(['ip', 'netns', 'del', name], check=False)


def sweep():
    """Removes namespaces of runs whose process is gone."""
    for line in run('ip', 'netns', 'list').split('\n'):
        name = line.split(' ')[0]
        parts = name.split('-')
        if parts[0] == PREFIX and len(parts) == 3 and not os.path.exists(f'/proc/{parts[1]}'):
            subprocess.run(['ip', 'netns', 'del', name], check=False)


class Process:
    """A program in a namespace, started by Host.start(); its output is kept and shown on failure."""

    def __init__(self, host, command, env):
        self.name = f'{host.label}: {os.path.basename(command[0])} {" ".join(command[1:])}'
        self.lines = []
        self.popen = subprocess.Popen(
            ['ip', 'netns', 'exec', host.name, *command], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
            preexec_fn=die_with_parent)

    def line(self, wanted=None):
        """The next line of output; wanted: the next one that begins so."""
        for line in self.popen.stdout:
            self.lines.append(line.rstrip('\n'))
            if wanted is None or line.startswith(wanted):
                return self.lines[-1]
        raise Failure(f'{self.name}: ended with {self.popen.wait()} instead of saying '
                      f'"{wanted}":\n' + '\n'.join(self.lines[-20:]))

    def json(self):
        """The next line of output that is JSON."""
        return json.loads(self.line('{'))

    def end(self):
        """Closes its input, which asks our programs to end, and waits; returns its last JSON."""
        self.popen.stdin.close()
        self.lines += [line.rstrip('\n') for line in self.popen.stdout]
        status = self.popen.wait()
        if status != 0:
            raise Failure(f'{self.name}: exit status {status}:\n' + '\n'.join(self.lines[-20:]))
        found = [line for line in self.lines if line.startswith('{')]
        return json.loads(found[-1]) if found else None

    def all(self, key):
        """The last JSON line that has this key."""
        found = [json.loads(line) for line in self.lines if line.startswith('{')]
        return [entry for entry in found if key in entry]

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            try:
                stream.close()
            except OSError:
                pass


class Host:
    """A namespace."""

    def __init__(self, lab, label):
        self.lab, self.label = lab, label
        self.name = f'{PREFIX}-{os.getpid()}-{lab.serial()}{label}'
        self.addresses = {}
        run('ip', 'netns', 'add', self.name)
        self.ip('link', 'set', 'lo', 'up')
        # Without this, addresses are unusable for a second or two after they were given.
        self.run('sysctl', '-q', '-w', 'net.ipv6.conf.default.accept_dad=0',
                 'net.ipv6.conf.all.accept_dad=0',
                 # When a first address goes, the second of the same network stays.
                 'net.ipv4.conf.all.promote_secondaries=1')

    def ip(self, *arguments):
        return run('ip', '-n', self.name, *arguments)

    def run(self, *command, stdin=None):
        return run('ip', 'netns', 'exec', self.name, *command, stdin=stdin)

    def start(self, *command, **env):
        """Starts a program; env overrides the environment (None removes a variable)."""
        full = {key: value for key, value in os.environ.items() if not key.startswith('RIPC_')}
        full.update({key: value for key, value in env.items() if value is not None})
        process = Process(self, [str(part) for part in command], full)
        self.lab.processes.append(process)
        return process

    def nft(self, rules):
        self.run('nft', '-f', '-', stdin=rules)

    def drop(self, device, *rules):
        """Drops what matches a rule of nftables on its way in."""
        self.pass_all(device)
        self.nft(f'add table netdev lab_{device}\n'
                 f'add chain netdev lab_{device} c {{ type filter hook ingress device '
                 f'"{device}" priority 0; }}\n' +
                 ''.join(f'add rule netdev lab_{device} c {rule} drop\n' for rule in rules))

    def lose(self, device, percent):
        """Drops so many per cent of the TCP and UDP packets that come in, at random.

        Not of ARP, whose own repetition takes a second and would hide what is to be seen.
        """
        if percent:
            self.drop(device, 'meta l4proto { tcp, udp } '
                              f'numgen random mod 1000 < {int(percent * 10)} counter')
        else:
            self.pass_all(device)

    def pass_all(self, device):
        self.nft(f'add table netdev lab_{device}\ndelete table netdev lab_{device}\n')

    def segment(self, device):
        """Datagrams and segments cross the link one by one."""
        self.run('ethtool', '-K', device, 'tso', 'off', 'tx-udp-segmentation', 'off')

    def rate(self, device, mbit, latency_ms=50, burst_bytes=32768):
        self.run('tc', 'qdisc', 'replace', 'dev', device, 'root', 'tbf', 'rate', f'{mbit}mbit',
                 'burst', str(burst_bytes), 'latency', f'{latency_ms}ms')


class Lab:
    """with Lab() as lab: ..."""

    def __init__(self):
        self.hosts, self.processes, self.links = [], [], 0

    def serial(self):
        return len(self.hosts)

    def __enter__(self):
        sweep()
        atexit.register(self.close)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self.processes:
            process.stop()
        for host in self.hosts:
            subprocess.run(['ip', 'netns', 'del', host.name], check=False)
        self.processes, self.hosts = [], []
        atexit.unregister(self.close)

    def host(self, label):
        host = Host(self, label)
        self.hosts.append(host)
        return host

    def veth(self, a, b, mtu=1500):
        """Joins two hosts; returns the names of the interfaces. No addresses yet."""
        self.links += 1
        name_a, name_b = f'to{b.label}{self.links}', f'to{a.label}{self.links}'
        a.ip('link', 'add', 'name', name_a, 'mtu', mtu, 'type', 'veth', 'peer', 'name', name_b, 'mtu',
             mtu, 'netns', b.name)
        for host, device in ((a, name_a), (b, name_b)):
            host.ip('link', 'set', device, 'up')
        return name_a, name_b

    def link(self, a, b, mtu=1500, ipv4=True, ipv6=True, segment=False):
        """Joins two hosts and gives both addresses, host.addresses[4] and [6]."""
        devices = self.veth(a, b, mtu)
        for end, (host, device) in enumerate(zip((a, b), devices), 1):
            self.address(host, device, self.links, end, ipv4, ipv6)
            if segment:
                host.segment(device)
        return devices

    def address(self, host, device, net, end, ipv4=True, ipv6=True, dad=False):
        if ipv4:
            host.addresses[4] = f'10.99.{net}.{end}'
            host.ip('address', 'add', f'10.99.{net}.{end}/24', 'dev', device)
        if ipv6:
            host.addresses[6] = f'fd99:{net:x}::{end:x}'
            host.ip('address', 'add', f'fd99:{net:x}::{end:x}/64', 'dev', device,
                    *([] if dad else ['nodad']))
        # Multicast, and whatever has no other route.
        if ipv4:
            host.ip('route', 'replace', 'default', 'dev', device)

    def bridge(self, label='sw'):
        """A switch: returns a host whose bridge attach() connects others to."""
        switch = self.host(label)
        try:
            switch.ip('link', 'add', 'name', 'br', 'type', 'bridge')
        except Failure as failure:
            skip(f'no bridge: {failure}')
        # The bridge knows of no multicast routers here, so it must flood.
        switch.ip('link', 'set', 'dev', 'br', 'type', 'bridge', 'mcast_snooping', '0')
        switch.ip('link', 'set', 'dev', 'br', 'up')
        return switch

    def attach(self, host, switch, end, segment=False, families=(4, 6)):
        device, port = self.veth(host, switch)
        switch.ip('link', 'set', port, 'master', 'br')
        self.address(host, device, 200, end, 4 in families, 6 in families)
        if segment:
            host.segment(device)
            switch.segment(port)
        return device, port

    def relay(self, a, b, program, *arguments, mtu=1500):
        """Joins two hosts through relay.c, which makes the interface relay0 in each.

        Their queues are long: what is lost was meant to be, also when the relay has to wait.
        """
        self.links += 1
        ends = [f'/run/netns/{host.name}' for host in (a, b)]
        process = a.start(program, *ends, *arguments)
        process.line('ready')
        for end, host in enumerate((a, b), 1):
            host.ip('link', 'set', 'relay0', 'mtu', mtu, 'txqueuelen', 10000, 'up')
            self.address(host, 'relay0', self.links, end)
        return process


def descendants(pid):
    """A process and all below it."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as children:
        found = [int(child) for child in children.read().split()]
    return [pid] + [below for child in found for below in descendants(child)]


def processor_us(pids):
    """The processor time of all threads of these processes, by the scheduler's count."""
    total = 0
    for pid in pids:
        for task in os.listdir(f'/proc/{pid}/task'):
            # the process has ended
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f'/proc/{pid}/task/{task}/schedstat', encoding='ascii') as stat:
                    total += int(stat.read().split()[0])
    return total / 1e3


def check(truth, what):
    if not truth:
        raise Failure(what)


def wait_for(condition, what, seconds=20):
    """Polls a condition; a failure after so many seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise Failure(f'{what}: not within {seconds} s')
        time.sleep(0.01)


def program(name):
    return os.path.join(PROGRAMS, f'net-{name}')


def main(cases, *needed):
    """usage: TEST DIRECTORY [--full] [CASE...]: the test programs are in DIRECTORY.

    Runs the cases (functions) and says what became of each; needed: programs it cannot do
    without. With --full, or RIPC_TEST_FULL set, the sizes that the figures are quoted for.
    """
    global PROGRAMS, FULL
    PROGRAMS = sys.argv[1]
    FULL = '--full' in sys.argv or bool(os.environ.get('RIPC_TEST_FULL'))
    wanted = [name for name in sys.argv[2:] if not name.startswith('-')]
    failed = 0
    require(*needed)
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        began = time.monotonic()
        try:
            said = case() or ''
            print(f'ok    {case.__name__} ({time.monotonic() - began:.1f} s) {said}', flush=True)
        except Failure as failure:
            failed += 1
            print(f'FAIL  {case.__name__}: {failure}', flush=True)
    sys.exit(1 if failed else 0)
