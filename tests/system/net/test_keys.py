# SPDX-License-Identifier: BSD-3-Clause
"""
Programs with keys, and somebody on the link between them who reads, alters, replays, reorders, drops
and forges packets of every kind: nothing leaves in the open, nothing is lost but what was dropped,
nothing is wrong, and who is refused reads why.
"""
import contextlib
import json
import os
import select
import shutil
import socket
import struct
import sys
import tempfile
import time

import forger
import netlab
from forger import p as protocol
from netlab import check
from xfer import SERVICE, finish, send, serve

GROUP = '239.255.76.82'

ATTACKS = ('--reorder-ppm', 100000, '--duplicate-ppm', 50000, '--alter-ppm', 20000, '--drop-ppm',
           10000, '--replay-ppm', 450000, '--forge-ppm', 450000)


def built(*path):
    return os.path.join(netlab.PROGRAMS, '..', '..', '..', *path)


@contextlib.contextmanager
def keys(host, *like):
    """A directory of keys, as a user makes it."""
    top = tempfile.mkdtemp(prefix='ripc-keys-')
    try:
        host.run(built('tools', 'ripc'), 'key', 'new', *like, os.path.join(top, 'keys'))
        yield os.path.join(top, 'keys')
    finally:
        shutil.rmtree(top)


def attacked(size, *arguments):
    """Two hosts with keys, each its own of one deployment."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'), '--seed', 1, *ATTACKS)
        with keys(a) as ours, keys(b, '--like', ours) as theirs:
            server = serve(b, RIPC_KEYS=theirs)
            client = send(a, size, *map(str, arguments), RIPC_KEYS=ours)
            result = finish(client, server, 0 if '--shorts' in arguments else 1)
        did = relay.end()
    check(did['open'] == 0, f'packets went in the open: {did}')
    tried = did['altered'] + did['replayed'] + did['forged']
    return result, did, tried


def longs():
    result, did, tried = attacked('1040M' if netlab.FULL else '16M')
    stats = [end['stats'] for end in (result.sent, result.received)]
    refused = sum(value for end in stats for name, value in end.items()
                  if name.startswith('drop_'))
    check(tried >= 10000, f'the relay tried nothing: {did}')
    check(refused >= tried / 3, f'{refused} of {tried} were refused')
    return f'{result}; {tried} attacks, {refused} refused'


def shorts():
    result, did, tried = attacked(800, '--shorts', 3000)
    check(result.received['wrong'] == 0, 'a short is wrong')
    check(result.received['shorts'] <= 3000, 'a short came twice')
    # Datagrams that the relay drops, alters or delays too long are lost.
    check(result.received['shorts'] >= 2000, f'{result.received["shorts"]} of 3000 arrived: {did}')
    return f'{result.received["shorts"]} of 3000 shorts, {tried} attacks'


def files():
    """Two commands of README.md, and one variable."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'))
        with keys(a) as ours, tempfile.TemporaryDirectory(prefix='ripc-files-') as top:
            with open(os.path.join(top, 'file'), 'wb') as stream:
                stream.write(os.urandom(1 << 20))
            server = a.start(built('examples', 'fileserver'), top, '--name', 'sealed',
                             RIPC_KEYS=ours)
            server.line('fileserver: serving')
            client = b.start(built('examples', 'fileget'), '--quiet', '--name', 'sealed', 'file',
                             '-o', os.path.join(top, 'copy'), RIPC_KEYS=ours)
            check(client.popen.wait() == 0, client.popen.stdout.read())
            with open(os.path.join(top, 'file'), 'rb') as was, \
                    open(os.path.join(top, 'copy'), 'rb') as came:
                check(was.read() == came.read(), 'the copy is another one')
        did = relay.end()
    check(did['open'] == 0 and did['sealed'] > 700, f'not sealed: {did}')
    return f'{did["sealed"]} sealed datagrams'


def without_keys():
    """A program without keys is told so, finds no service with keys, and sends nothing to one."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'))
        with keys(a) as ours:
            serve(b, RIPC_KEYS=ours)
            client = a.start(built('tools', 'ripc'), 'ping', SERVICE, '-c', 1, '--timeout', 5000)
            said = client.popen.stdout.read()
            check(client.popen.wait() == 1 and 'RIPC_KEYS' in said, said)
        did = relay.end()
    check(did['open'] == 0, f'packets went in the open: {did}')


# ---- capabilities ---------------------------------------------------------------------------

def first_line(*path):
    with open(os.path.join(*path), encoding='ascii') as stream:
        return stream.readline().strip()


def altered(line):
    """One bit of the signature is another one."""
    return line[:-1] + format(int(line[-1], 16) ^ 1, 'x')


class Deployment:
    """The authority's keys, which the server uses, too; and the client's, of the same deployment."""

    def __init__(self, host, top):
        self.host = host
        self.server, self.client = os.path.join(top, 'server'), os.path.join(top, 'client')
        self.key('new', '--authority', self.server)
        self.key('new', '--like', self.server, self.client)

    def key(self, *arguments):
        return self.host.run(built('tools', 'ripc'), 'key', *arguments)

    def grant(self, holder, what, service=SERVICE, key_of=None, seconds=1000, alter=False):
        line = self.key('grant', '--dir', self.server, f'--{what}', service, '--for', f'{seconds}s',
                        first_line(key_of or holder, 'public')).strip()
        with open(os.path.join(holder, 'capabilities'), 'w', encoding='ascii') as stream:
            stream.write((altered(line) if alter else line) + '\n')

    def believes_all(self):
        """The client asks for no capabilities, neither its own nor others': it tries everything."""
        os.remove(os.path.join(self.client, 'authority'))


# The faults of a capability, and the messages of programs that refuse it.
FAULTS = {
    'expired': ({'seconds': 1}, '1 expired'),
    'of another service': ({'service': SERVICE + 1}, None),
    'of another key': ({'key_of': 'other'}, '1 of another key'),
    'altered': ({'alter': True}, '1 not signed'),
}


def ask(deployment, a, b):
    """A client at b, a server at a: how the message ended, and what each end has said."""
    server = serve(a, RIPC_KEYS=deployment.server)
    client = send(b, 100, '--timeout-ms', 8000, RIPC_KEYS=deployment.client)
    client.popen.wait()
    client.lines += [line.rstrip('\n') for line in client.popen.stdout]
    received = server.end()
    statuses = [sent['status'] for sent in client.all('sent')]
    return statuses, received, '\n'.join(server.lines), '\n'.join(client.lines)


def refused(which, fault, lies):
    """The capability of one end is bad; a client that lies does not look at its own."""
    how, count = FAULTS[fault]
    with netlab.Lab() as lab, tempfile.TemporaryDirectory(prefix='ripc-keys-') as top:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        deployment = Deployment(a, top)
        how = {**how, **({'key_of': [deployment.client, deployment.server][which == 'client']}
                         if 'key_of' in how else {})}
        deployment.grant(deployment.server, 'be', **(how if which == 'server' else {}))
        deployment.grant(deployment.client, 'send', **(how if which == 'client' else {}))
        if how.get('seconds') == 1:
            time.sleep(1.1)
        if lies:
            deployment.believes_all()
        statuses, received, by_server, by_client = ask(deployment, a, b)
    what = f'{which}, {fault}: {statuses}\nserver: {by_server}\nclient: {by_client}'
    check(received['longs'] == 0 and 0 not in statuses, f'taken: {what}')
    for said in (by_server, by_client) if which == 'server' or lies or count else (by_client,):
        check('keys: ' in said and 'ripc key' in said, f'the log of an end names no remedy: {what}')
    check(not count or count in by_server + by_client, f'the log does not name the fault: {what}')


def capabilities():
    with netlab.Lab() as lab, tempfile.TemporaryDirectory(prefix='ripc-keys-') as top:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        deployment = Deployment(a, top)
        deployment.grant(deployment.server, 'be')
        deployment.grant(deployment.client, 'send')
        statuses, received, by_server, by_client = ask(deployment, a, b)
        check(statuses == [0] and received['longs'] == 1,
              f'good ones are refused: {statuses} {by_server} {by_client}')
    for fault in FAULTS:
        refused('client', fault, lies=False)
        refused('client', fault, lies=True)
        refused('server', fault, lies=False)
    return f'{3 * len(FAULTS)} bad ones refused'


# ---- finding --------------------------------------------------------------------------------

def forge():
    """
    In a namespace on the link: answers each query that it hears with records and denials of its
    own, and tells everybody that services are here; with marks that it makes up or has heard. And it
    says again what it has heard.
    """
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    link.bind(('', forger.RESOLVER))
    link.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton(GROUP) + socket.inet_aton('0.0.0.0'))
    link.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    print('ready', flush=True)
    queries = told = 0
    heard = []
    while True:
        ready = select.select([link, sys.stdin], [], [])[0]
        if sys.stdin in ready:
            break
        data, asker = link.recvfrom(2000)
        heard = heard[-15:] + [data]
        if len(data) < 56 or data[1] != protocol.QUERY:
            continue
        queries += 1
        nonce, service = struct.unpack_from('<Q', data, 8)[0], struct.unpack_from('<Q', data, 48)[0]
        key = os.urandom(32) + struct.pack('<Q', forger.draw())
        here = [(1, b'\1\0\1\1'), (129, b'\1\0\1\1' + key)]
        for old in heard:
            told += 1
            with contextlib.suppress(OSError):
                link.sendto(old, asker)
                link.sendto(old, (GROUP, forger.RESOLVER))
        rest = protocol.record_rest(forger.draw(), 1000, 1, forger.draw(), here)
        for mark in (b'', os.urandom(16), data[-16:]):
            for to, number in ((asker, nonce), ((GROUP, forger.RESOLVER), 0)):
                for said in (protocol.write_resolver(protocol.RECORD, number, id=service, rest=rest),
                             protocol.write_resolver(protocol.NOBODY, nonce, id=service, third=1)):
                    told += 1
                    with contextlib.suppress(OSError):
                        link.sendto(said + mark, to)
    print(json.dumps({'queries': queries, 'told': told}), flush=True)


def among_forgers(env_a, env_b, timeout_ms=8000):
    """A server registers, and a client finds it, while somebody on the link forges."""
    with netlab.Lab() as lab:
        a, b, c = lab.host('a'), lab.host('b'), lab.host('c')
        switch = lab.bridge()
        for end, host in enumerate((a, b, c), 1):
            lab.attach(host, switch, end)
        liar = c.start(sys.executable, os.path.abspath(__file__), '--forge')
        liar.line('ready')
        server = a.start(netlab.program('xfer'), 'serve', '--id', SERVICE, **env_a)
        with contextlib.suppress(netlab.Failure):
            server.line('ready')  # or the registration is refused
        client = send(b, '1M', '--timeout-ms', timeout_ms, **env_b)
        client.popen.wait()
        client.lines += [line.rstrip('\n') for line in client.popen.stdout]
        server.popen.stdin.close()
        server.popen.wait()
        server.lines += [line.rstrip('\n') for line in server.popen.stdout]
        did = liar.end()
    works = client.popen.returncode == server.popen.returncode == 0
    return works, did, server.lines + client.lines


def forged_answers():
    with netlab.Lab() as lab:
        host = lab.host('k')
        with keys(host) as ours, keys(host, '--like', ours) as theirs:
            works, did, said = among_forgers({'RIPC_KEYS': ours}, {'RIPC_KEYS': theirs})
    check(did['told'] >= 12, f'the forger has heard nothing: {did}')
    check(works, 'a registration is refused, or a service taken: ' + '\n'.join(said))
    # The forgery is one: without keys it has an effect, unless the forger is late.
    in_the_open = (among_forgers({}, {}, 1000) for _ in range(5))
    check(any(not works for works, _, _ in in_the_open), 'forged packets have no effect without keys')
    return f'{did["told"]} forged answers and notices'


# ---- handshakes -----------------------------------------------------------------------------

INIT = b'\x92\1'
PER_SECOND, FRESH = 30000, 10


def replay():
    """
    In the namespace of the clients: sends the last INIT with an address proof that it has seen again
    and again, from the clients' own address.
    """
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    print('ready', flush=True)
    last, to, sent, began = None, None, 0, time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        while select.select([tap], [], [], 0 if last else 0.1)[0]:
            packet, where = tap.recvfrom(4000)
            data = packet[(packet[0] & 15) * 4 + 8:]
            if where[2] == socket.PACKET_OUTGOING and packet[9] == socket.IPPROTO_UDP and \
                    data[:2] == INIT and data != last and any(data[24:32]):
                port, = struct.unpack_from('>H', packet, (packet[0] & 15) * 4 + 2)
                last, to = data, (socket.inet_ntoa(packet[16:20]), port)
                began, sent = (began, sent) if sent else (time.monotonic(), 0)
        due = int((time.monotonic() - began) * PER_SECOND) - sent if last else 0
        for _ in range(min(due, 300)):
            with contextlib.suppress(OSError):
                out.sendto(last, to)
        sent += max(0, min(due, 300))
    print(json.dumps({'sent': sent, 'per_second': int(sent / (time.monotonic() - began))}), flush=True)


def fresh_clients(host, env):
    """How long new clients took for their first call, seconds. All of them must be answered."""
    took = []
    for _ in range(FRESH):
        began = time.monotonic()
        client = host.start(built('tools', 'ripc'), 'ping', SERVICE, '-c', 1, '--timeout', 5000,
                            **env)
        said = client.popen.stdout.read()
        check(client.popen.wait() == 0, f'a new client gets no answer: {said}')
        took.append(time.monotonic() - began)
    return sorted(took)


def replayed_handshakes():
    """Copies of an INIT use up nothing that new clients of the same host need."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b, ipv6=False)
        with keys(a) as ours, keys(b, '--like', ours) as theirs:
            server = serve(b, RIPC_KEYS=theirs)
            at_rest = fresh_clients(a, {'RIPC_KEYS': ours})
            attacker = a.start(sys.executable, os.path.abspath(__file__), '--replay')
            attacker.line('ready')
            attacked_ones = fresh_clients(a, {'RIPC_KEYS': ours})
            did = attacker.end()
            stats = server.end()['stats']
    check(did['sent'] > 1000, f'hardly an INIT was replayed: {did}')
    check(stats['drop_partner_limit'] == 0, f'copies use up the budget of their host: {stats}')
    return f'{did}, ' + ', '.join(
        f'{name}: median {1000 * took[FRESH // 2]:.0f} ms, most {1000 * took[-1]:.0f} ms'
        for name, took in (('at rest', at_rest), ('attacked', attacked_ones)))


if __name__ == '__main__':
    if sys.argv[1:] == ['--forge']:
        forge()
    elif sys.argv[1:] == ['--replay']:
        replay()
    else:
        netlab.main([longs, shorts, files, without_keys, capabilities, forged_answers,
                     replayed_handshakes])
