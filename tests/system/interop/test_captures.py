# SPDX-License-Identifier: BSD-3-Clause
"""The traffic of the project's programs over UDP is captured and decoded by the text, whole.

Nine workloads on the loopback interface of a network namespace; every datagram, of contexts and of
the resolver, is decoded strictly and encoded again to the same bytes. Where tshark is installed, the
dissector of tools/wireshark must see the same packets. The datagrams of contexts with keys are sealed:
only the dissector reads their heads.

usage: test_captures.py BUILD_ROOT
"""
import collections
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import dissector
import protocol as p

SKIP = 77
PORT = 15511
ETH_P_ALL, PACKET_OUTGOING, SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE = 3, 4, 263, 6, 33
# Segments of one send are to be captured one by one; queries by unicast as well.
VARIABLES = {'RIPC_BACKENDS': 'udp', 'RIPC_OPTIONS': 'udp.gso=off,udp.gro=off',
             'RIPC_PEERS': '127.0.0.1'}


class Capture:
    """The UDP datagrams of the loopback interface while the `with` block runs."""

    def __init__(self):
        self.datagrams, self.done, self.lost = [], False, 0

    def __enter__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self.socket.bind(('lo', 0))
        self.socket.settimeout(0.2)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.thread.join()
        self.lost = struct.unpack('II', self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        self.socket.close()

    def read(self):
        while True:
            try:
                frame, sender = self.socket.recvfrom(70000)
            except TimeoutError:
                if self.done:
                    return
                continue
            if sender[2] == PACKET_OUTGOING:  # each passes twice
                self.datagrams += udp_of(frame[14:])


def udp_of(packet):
    """The ports and payload of an IP packet, if it is one of UDP."""
    if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_UDP:
        assert struct.unpack_from('>H', packet, 6)[0] & 0x3fff == 0, 'a fragment'
        packet = packet[4 * (packet[0] & 15):]
    elif packet[0] >> 4 == 6 and packet[6] == socket.IPPROTO_UDP:
        packet = packet[40:]
    else:
        return []
    source, to, length = struct.unpack_from('>HHH', packet)
    return [(source, to, packet[8:length])]


def check(datagram, counts):
    """Decodes one; raises Malformed."""
    source, to, data = datagram
    if not data:
        counts['empty'] += 1
        return
    if PORT in (source, to):
        packet = p.decode_resolver(data)
        p.want(all(p.is_address(*addr) for addr in packet.addrs or ()), 'an address that is none')
        again = p.encode_resolver(packet)
    else:
        packet = p.decode(data)
        again = p.encode(packet)
    p.want(again == data, 'encoded otherwise')
    counts[p.NAMES[packet.type]] += 1


class Programs:
    """The built programs; servers end with the block."""

    def __init__(self, build):
        self.build, self.servers = build, []
        self.environment = dict(os.environ, **VARIABLES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def path(self, command):
        return [os.path.join(self.build, command[0]), *command[1:]]

    def serve(self, *command, stdout=subprocess.DEVNULL):
        server = subprocess.Popen(self.path(command), env=self.environment, stdin=subprocess.PIPE,
                                  stdout=stdout, text=True)
        self.servers.append(server)
        return server

    def run(self, *command):
        """Runs a client; one that does not find its server is run again."""
        for _ in range(5):
            done = subprocess.run(self.path(command), env=self.environment, timeout=120, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode == 0:
                return
        raise AssertionError(f'{command}: {done.returncode}: {done.stdout}')


def hello(programs, _):
    programs.serve('examples/hello_server')
    for name in ('one', 'two', 'three'):
        programs.run('examples/hello_client', name)


def pingpong(programs, _):
    programs.serve('examples/pingpong', '--serve', '--name', 'pong')
    programs.run('examples/pingpong', '--name', 'pong', '--sizes', '50,500,1400,40000', '--count', '40')


def files(programs, folder):
    for name, size in (('small', 1000), ('large', 4 << 20)):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(os.urandom(size))
    programs.serve('examples/fileserver', folder, '--name', 'files')
    programs.run('examples/fileget', '--name', 'files', '--list')
    programs.run('examples/fileget', '--name', 'files', '--recursive', '--discard')


def finding(programs, _):
    programs.serve('examples/pingpong', '--serve', '--name', 'pong')
    programs.run('tools/ripc', 'ping', 'pong', '-c', '5')
    programs.run('tools/ripc', 'ls')
    subprocess.run(programs.path(['tools/ripc', 'ping', 'nobody']), env=programs.environment,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)


def loss(programs, _):
    """One of ten datagrams is lost on its way in, after it was captured."""
    rules = ('add table netdev lab\nadd chain netdev lab c { type filter hook ingress device "lo" '
             'priority 0; }\nadd rule netdev lab c meta l4proto udp numgen random mod 10 < 1 drop\n')
    subprocess.run(['nft', '-f', '-'], input=rules, text=True, check=True)
    programs.serve('tests/system/net/net-xfer', 'serve', '--id', '4711')
    xfer = ('tests/system/net/net-xfer', 'send', '--to', '4711', '--bytes')
    programs.run(*xfer, '1000000', '--pieces', '4', '--items', '3')
    programs.run(*xfer, '1000', '--shorts', '100')


def restart(programs, _):
    """The server is killed between two clients, and another one has its ID."""
    for _ in range(2):
        server = programs.serve('examples/pingpong', '--serve', '--name', 'pong')
        programs.run('examples/pingpong', '--name', 'pong', '--sizes', '50,2000', '--count', '5')
        server.kill()
        server.wait()


def move(programs, _):
    """A service goes from one process to the next, and its sender stays."""
    def serve():
        server = programs.serve('tests/system/net/net-xfer', 'serve', '--id', '4712', stdout=subprocess.PIPE)
        assert server.stdout.readline() == 'ready\n'
        return server
    server = serve()
    sender = programs.serve('tests/system/net/net-xfer', 'send', '--to', '4712', '--bytes', '100000', '--on-line',
                            stdout=subprocess.PIPE)
    assert sender.stdout.readline().startswith('found')
    for _ in range(3):
        sender.stdin.write('\n')
        sender.stdin.flush()
        said = sender.stdout.readline()
        assert '"outcome":2' in said, said
        server.stdin.close()
        server.wait(10)
        server = serve()
    sender.stdin.close()
    assert sender.wait(10) == 0


def groups(programs, _):
    """Shorts and longs to three members, of which two live on after the first."""
    members = [programs.serve('tests/system/net/net-group', 'join', 'captured', stdout=subprocess.PIPE) for _ in range(3)]
    for member in members:
        assert member.stdout.readline() == 'ready\n'
    for n in (3, 2):
        sender = programs.serve('tests/system/net/net-group', 'send', 'captured', '--members', str(n), '--shorts', '10',
                                '--longs', '1', '--bytes', '100000', '--timeout', '60000', stdout=subprocess.PIPE)
        sender.stdin.write('go\n')
        sender.stdin.close()
        said = sender.stdout.read()
        assert sender.wait(60) == 0 and f'"delivered": {n}, "not_delivered": 0' in said, said
        members[3 - n].stdin.close()
        members[3 - n].wait(10)


def sealed(programs, folder):
    keys = os.path.join(folder, 'keys')
    programs.run('tools/ripc', 'key', 'new', keys)
    programs.environment['RIPC_KEYS'] = keys
    hello(programs, folder)


def take(work, build):
    with Capture() as taken, tempfile.TemporaryDirectory() as folder, Programs(build) as programs:
        work(programs, folder)
    return taken


def dissect(work, taken, expected):
    """Does tshark see the same packets, and the notes that the workload must lead to?"""
    # Each checksum has been verified already.
    rows = dissector.rows(taken.datagrams, ('ripc.type', 'ripc.resolver.type', 'ripc.sealed.kind',
                                            '_ws.expert.message', 'ripc.message.len', 'ripc.reply_in',
                                            'ripc.call.kind'), False)
    counts, notes, lengths, answers, to_groups = collections.Counter(), collections.Counter(), [], 0, 0
    for (protocols, kind, found, seal, said, message, answer, call), (_, _, data) in zip(rows, taken.datagrams):
        name = 'empty' if not data else 'sealed' if seal else \
            p.NAMES.get(int((kind or found or ['0'])[0])) if 'ripc' in protocols[0] else 'not decoded'
        counts[name] += 1
        notes.update(text.split(':')[0] for text in said)
        lengths += map(int, message)
        answers += bool(answer)
        to_groups += call.count('4')
    print(f'{work.__name__}: tshark: {sum(counts.values())} datagrams, {counts["not decoded"]} not decoded, '
          f'{len(lengths)} long messages put together, the longest of {max(lengths or [0])} bytes, '
          f'{answers} queries with their answers, {to_groups} packets to groups; {dict(notes)}', flush=True)
    wrong = [text for text in notes if text.startswith(('malformed', 'wrong checksum', 'another version', 'flags'))]
    wrong += [text for text in WANTED.get(work.__name__, {}) if not any(text in note for note in notes)]
    return not wrong and not counts['not decoded'] and (expected is None or counts == expected) and \
        max(lengths or [0]) >= LONGEST.get(work.__name__, 0) and (work is not files or answers > 0) and bool(to_groups) == (work is groups)


# The output required of tshark for a workload, and the longest message that it puts together.
WANTED = {'loss': ['sent again', 'asks for']}
LONGEST = {'files': 2 << 20, 'pingpong': 40000, 'move': 100000, 'groups': 100000, 'loss': 1000000, 'hello': 3}


def capture(work, build):
    taken = take(work, build)
    counts, bad = collections.Counter(), []
    for datagram in taken.datagrams:
        try:
            check(datagram, counts)
        except p.Malformed as why:
            bad.append((str(why), datagram))
    print(f'{work.__name__}: {len(taken.datagrams)} datagrams, {len(bad)} undecodable, '
          f'{taken.lost} not captured:', ', '.join(f'{n} {name}' for name, n in sorted(counts.items())),
          flush=True)
    for why, (source, to, data) in bad[:5]:
        print(f'  {source} to {to}: {why}: {data[:100].hex()}')
    seen = not dissector.is_here() or dissect(work, taken, counts)
    return taken.datagrams and not bad and not taken.lost and seen, counts


def capture_sealed(build):
    """Nothing but the resolver's queries goes in the clear."""
    if not dissector.is_here():
        print('sealed: not looked at, there is no tshark (apt-get install tshark)')
        return True
    taken = take(sealed, build)
    sealed_ones = [data for source, to, data in taken.datagrams if PORT not in (source, to) and data]
    return dissect(sealed, taken, None) and sealed_ones and all(data[0] == 0x92 for data in sealed_ones)


def main():
    if '--inside' not in sys.argv:
        if os.geteuid() != 0:
            print('skipped: network namespaces need root')
            sys.exit(SKIP)
        sys.exit(subprocess.run(['unshare', '-n', sys.executable, *sys.argv, '--inside'],
                                check=False).returncode)
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    total, good = collections.Counter(), capture_sealed(sys.argv[1])
    for work in (hello, pingpong, files, finding, restart, move, groups, loss):
        decoded, counts = capture(work, sys.argv[1])
        total += counts
        good = good and decoded
    missing = {'SHORT', 'ANNOUNCE', 'DATA', 'PULL', 'ANSWER', 'HELLO_ONLY', 'ECHO', 'ECHO_REPLY', 'GONE',
               'QUERY', 'RECORD', 'WITHDRAWN', 'NOBODY'} - set(total)
    print(f'in all: {sum(total.values())} decoded; never seen: {missing or "none"}')
    sys.exit(0 if good and not missing else 1)


if __name__ == '__main__':
    main()
