# SPDX-License-Identifier: BSD-3-Clause
"""A host that forges packets, with addresses of its own and nothing sniffed; and how to tell
what an attack costs those who mean well.

The forger is a process in a namespace: Forger in the test, the functions of an attack in it, which
get a Context. RIPC_FORGER_VERSION=1: it speaks the version before this one, to show an attack on a
library that had no answer to it. RIPC_FORGER_FAMILY=6: it sends over IPv6.
"""
import json
import os
import select
import socket
import struct
import sys
import time
from types import SimpleNamespace

import netlab
from netlab import check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'interop'))
import protocol as p

RESOLVER = 15511
SINK = 9               # a port of the victim's host that nobody reads
HEADER = struct.Struct('<BBHIQQQQ')
SERVICE, OTHER, CLIENT = 4711, 4712, 4713
PAYLOAD = b'forged!!'

VERSION = int(os.environ.get('RIPC_FORGER_VERSION', 2))
SIX = os.environ.get('RIPC_FORGER_FAMILY') == '6'
HEADERS = 48 if SIX else 28


def draw():
    return int.from_bytes(os.urandom(8), 'little') | 1


def draw_id():
    """The ID of a service: IDs that begin with 0xff are those of groups."""
    return draw() >> 8 | 1


# ---- in the forger's process ----------------------------------------------------------------

class Look:
    """The fields that both versions of a packet have."""

    def __init__(self, data):
        self.version, self.type, self.flags, _, self.src, self.dst, self.token, self.number = \
            HEADER.unpack_from(data)
        self.hello = struct.unpack_from('<5Q', data, 40) if self.flags & p.HELLO else None
        self.value = struct.unpack_from('<Q', data, 40)[0] if len(data) >= 48 else 0
        body = 40 + 48 * bool(self.flags & p.HELLO) + 24 * bool(self.flags & p.ACK)
        self.body = data[body:]


def query(asker, service):
    data = p.write_resolver(p.QUERY, draw(), asker, service)
    data = bytes([VERSION]) + data[1:4] + bytes(4) + data[8:]
    return data[:4] + struct.pack('<I', p.crc32c(data)) + data[8:]


class Context:
    """A peer that claims any identity, from an address of its own."""

    def __init__(self, address='::' if SIX else '0.0.0.0', **claims):
        self.context, self.src, self.id = draw(), draw(), draw_id()
        self.__dict__.update(claims)
        self.socket = socket.socket(socket.AF_INET6 if SIX else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((address, 0))
        self.socket.settimeout(2)
        self.token, self.got, self.n_got = draw(), 0, 0
        self.to = self.victim = None

    def find(self, host, service):
        """Asks the resolver of a host: its answer bears a proof for this address."""
        nonces = set()
        for _ in range(100):
            asked = query(self.context, service)
            nonces.add(asked[8:16])
            self.socket.sendto(asked, (host, RESOLVER))
            self.socket.settimeout(0.2)
            try:
                data = self.socket.recv(2000)
            except socket.timeout:
                continue
            if data[1] != p.RECORD or data[8:16] not in nonces:  # a late one tells of another service
                continue
            record = struct.unpack_from('<4QB', data, 56)
            self.victim = SimpleNamespace(id=service, incarnation=record[0], context=record[3],
                                          proof=struct.unpack_from('<Q', data, 24)[0])
            at = 89
            for _ in range(record[4]):
                backend, length = data[at:at + 2]
                if backend == 1:
                    self.to = (host, struct.unpack_from('<H', data, at + 4)[0])
                at += 2 + length
            self.socket.settimeout(2)
            return self.victim
        raise SystemExit('forger: no answer of the resolver')

    def hello(self, token=None, service=None, context=None, proof=None):
        proof = self.victim.proof if proof is None else proof
        return (token or self.token, service or self.id, context or self.context, self.victim.id, proof,
                65536)

    def packet(self, kind, number=0, body=b'', payload=b'', flags=0, src=None, token=0, hello=None):
        """With a hello, unless a token is given."""
        hello = hello or (None if token else self.hello())
        return p.write(kind, src or self.src, self.victim.incarnation, token, number, body, payload,
                       flags, VERSION, hello=hello)

    def short(self, number=1, payload=PAYLOAD, **fields):
        return self.packet(p.SHORT, number, payload=payload, flags=1 << 8, **fields)

    def announce(self, number, total, payload=b'', unasked=65536, **fields):
        whole = len(payload) == total
        body = struct.pack('<QQIIII', total, 1, 1, min(total, unasked),
                           p.crc32c(payload) if whole else 0, 0)
        stamps = struct.pack('<II', 1, 0) if VERSION > 1 else b''
        return self.packet(p.ANNOUNCE, number, body + stamps + struct.pack('<Q', total), payload,
                           p.LAST if whole else 0, **fields)

    def done(self, number, token):
        """Says that a message has been delivered."""
        echo = struct.pack('<I', 0) if VERSION > 1 else b''
        return self.packet(p.ANSWER, number, struct.pack('<QIQ', number, 0, 0) + echo, token=token)

    def send(self, data):
        return self.socket.sendto(data, self.to)

    def answered(self, data, kind):
        """The answer of that kind, or None. The packet is sent again, as a loaded machine may lose it."""
        for _ in range(20):
            self.send(data)
            answer = self.receive(1, kind)
            if answer:
                return answer
        return None

    def receive(self, seconds=2.0, kind=None):
        """The next packet (of a kind), or None."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                look = Look(self.socket.recv(65536))
            except (socket.timeout, ConnectionRefusedError):
                continue
            if kind in (None, look.type):
                return look
        return None

    def drain(self):
        """Counts what has come."""
        self.socket.setblocking(False)
        try:
            while True:
                self.got += len(self.socket.recv(65536)) + HEADERS
                self.n_got += 1
        except (BlockingIOError, ConnectionRefusedError):
            pass


def say(**what):
    print(json.dumps(what), flush=True)


def order(wait):
    """A line of the test, or '' if there is none (yet)."""
    if not wait and not select.select([sys.stdin], [], [], 0)[0]:
        return ''
    line = sys.stdin.readline()
    return line.strip() or 'end'


def flood(contexts, packets, per_second, after=None):
    """Sends packets, pairs of a context and bytes, at a rate, whenever the test says so.

    Orders: "real", to whom they are for; "sink", to a port nobody reads, so that the machine has as
    much to do; "rest"; "end". Answers each with what was sent and got until then.
    """
    sent, n_sent, aim, wanted = 0, 0, 'rest', 'rest'
    say(ready=True)
    iterator = iter(packets)
    spare = next(iterator)
    began, n_since = time.monotonic(), 0
    while wanted != 'end':
        wanted = order(aim == 'rest')
        if wanted:
            for context in contexts:
                context.drain()
            say(sent=sent, n=n_sent, got=sum(c.got for c in contexts), n_got=sum(c.n_got for c in contexts))
            aim, began, n_since = wanted, time.monotonic(), 0
        for _ in range(64):
            if aim not in ('real', 'sink'):
                break
            item = spare if aim == 'sink' else next(iterator, None)
            if item is None:
                aim = 'rest'
                break
            context, data = item
            try:
                context.socket.sendto(data, context.to if aim == 'real' else (context.to[0], SINK))
            except (BlockingIOError, ConnectionRefusedError):
                pass
            n_since += 1
            if aim == 'real':
                sent, n_sent = sent + len(data) + HEADERS, n_sent + 1
                if n_since % 64 == 0:
                    context.drain()
        time.sleep(max(0.0, began + n_since / per_second - time.monotonic()))
    if after:
        after()


# ---- in the test ----------------------------------------------------------------------------

class Forger:
    """The process; attack: the name of a function of the test's file, called with the arguments."""

    def __init__(self, host, attack, *arguments, family=4):
        test = os.path.abspath(sys.argv[0])
        self.process = host.start(sys.executable, test, '--forge', attack, *arguments,
                                  RIPC_FORGER_VERSION=os.environ.get('RIPC_FORGER_VERSION'),
                                  RIPC_FORGER_FAMILY=str(family))

    def ready(self):
        self.process.line('{"ready"')
        return self

    def tell(self, what):
        self.process.popen.stdin.write(what + '\n')
        self.process.popen.stdin.flush()
        return self.process.json()


class Honest:
    """The process honest.c."""

    def __init__(self, host, service=0):
        self.process = host.start(netlab.program('honest'), service)
        self.process.line('ready')

    def ask(self, line):
        self.process.popen.stdin.write(line + '\n')
        self.process.popen.stdin.flush()
        return self.process.json()

    def send(self, to, size=100, ms=1):
        return self.ask(f'send {to} {size} {ms}')

    def count(self):
        return self.ask('count')

    def seconds(self):
        """The processor time that it has used."""
        with open(f'/proc/{self.process.popen.pid}/stat', encoding='ascii') as stat:
            return sum(int(field) for field in stat.read().split()[13:15]) / os.sysconf('SC_CLK_TCK')

    def resident(self):
        """Bytes of memory that it has."""
        with open(f'/proc/{self.process.popen.pid}/statm', encoding='ascii') as statm:
            return int(statm.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def three(lab, families=(4, 6)):
    """Honest client, its server's host, the forger's."""
    hosts = [lab.host(label) for label in 'abc']
    switch = lab.bridge()
    for end, host in enumerate(hosts, 1):
        lab.attach(host, switch, end, families=families)
    return hosts


def sink(host):
    return host.start(sys.executable, '-c', 'import socket, sys\n'
                      's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n'
                      's.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)\n'
                      f's.bind(("::", {SINK}))\nsys.stdin.read()')


class Figures:
    """The honest client's without and under the attack: windows that take turns."""

    def __init__(self):
        self.without, self.under = [], []

    def windows(self, client, forger, size=100, n=None, ms=150):
        """To OTHER, which nobody attacks, while the forger keeps the machine as busy; then to SERVICE."""
        for _ in range(n or (40 if netlab.FULL else 8)):
            forger.tell('sink')
            self.without.append(client.send(OTHER, size, ms))
            forger.tell('real')
            self.under.append(client.send(SERVICE, size, ms))
        return forger.tell('rest')

    @staticmethod
    def median(windows, key):
        return sorted(window[key] for window in windows)[len(windows) // 2]

    def failed(self):
        return sum(window['failed'] for window in self.under)

    def ratio(self, key):
        return self.median(self.under, key) / max(self.median(self.without, key), 1e-9)

    def check(self):
        """The work that a loaded machine keeps up, by the best window of each kind; the medians are
        printed.

        A process that does more waits first for a processor, so medians are for a quiet machine.
        """
        rates = [max(window['rate'] for window in windows) for windows in (self.without, self.under)]
        waits = [min(window['p99_us'] for window in windows) for windows in (self.without, self.under)]
        check(self.failed() == 0, f'{self.failed()} sends failed')
        check(rates[1] >= 0.25 * rates[0], f'the client is slowed down: at best {rates}, {self}')
        check(waits[1] <= 10 * waits[0] or waits[1] <= 50000, f'the client waits: at best {waits}, {self}')

    def __str__(self):
        return (f'rate {self.median(self.without, "rate"):.0f} -> {self.median(self.under, "rate"):.0f}/s '
                f'({self.ratio("rate"):.2f}), p99 {self.median(self.without, "p99_us"):.0f} -> '
                f'{self.median(self.under, "p99_us"):.0f} us ({self.ratio("p99_us"):.1f} times)')


def amplification(said):
    return said['got'] / max(said['sent'], 1)


def main(cases, attacks, *needed):
    if '--forge' in sys.argv:
        at = sys.argv.index('--forge')
        attacks[sys.argv[at + 1]](*sys.argv[at + 2:])
        sys.exit(0)
    netlab.main(cases, *needed)
