# SPDX-License-Identifier: BSD-3-Clause
"""
A client behind NAT writes to a server outside, which replies to the sender of each message
(to_handle). No query of the server reaches the client: its NAT admits only what belongs to a flow
that it began.
"""
import contextlib

import netlab
import zookeeper
from netlab import check
from test_keys import keys

NAME = 'outside'
KINDS = ('short 800', 'long 300000', 'short lends 500', 'long lends 300000')
CLIENTS, SHORT_MS, ENOENT = 4, 500, -2
SERVER_PORTS, OTHER_PORTS = '20000-24999', '30000-34999'
# struct nlmsghdr (IPCTNL_MSG_CT_DELETE of all), struct nfgenmsg
FORGET = '''import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.send(struct.pack('=IHHIIBBH', 20, 0x102, 5, 1, 0, 2, 0, 0))
assert struct.unpack_from('=i', s.recv(4096), 16)[0] == 0'''


class Peer:
    """A program that obeys: tests/system/net/nat.c."""

    def __init__(self, host, *arguments, **env):
        self.process = host.start(netlab.program('nat'), *arguments, RIPC_LOG='warn', **env)
        self.id = self.process.json()['id']

    def tell(self, words):
        self.process.popen.stdin.write(words + '\n')
        self.process.popen.stdin.flush()
        return self.process.json()


class Router:
    """Masquerades what comes from inside, and lets nothing in that was not asked for."""

    def __init__(self, lab, server):
        self.host = lab.host('n')
        self.client = lab.host('c')
        lab.link(self.host, self.client, ipv6=False)
        gateway = self.host.addresses[4]
        self.outside, _ = lab.link(self.host, server, ipv6=False)
        self.client.ip('route', 'replace', 'default', 'via', gateway)
        self.host.run('sysctl', '-q', '-w', 'net.ipv4.ip_forward=1')
        self.map(SERVER_PORTS)

    def map(self, ports):
        self.host.nft('add table ip nat\ndelete table ip nat\nadd table ip nat\n'
                      'add chain ip nat out { type nat hook postrouting priority 100; }\n'
                      'add chain ip nat way { type filter hook forward priority 0; }\n'
                      f'add rule ip nat out oifname {self.outside} meta l4proto {{ tcp, udp }} '
                      f'masquerade to :{ports}\n'
                      f'add rule ip nat way iifname {self.outside} ct state new drop\n')

    def forget(self, ports=OTHER_PORTS):
        """All mappings are forgotten; the next ones have other ports."""
        self.map(ports)
        self.host.run('python3', '-c', FORGET)


def works(client, kinds=KINDS):
    """Each kind of message is replied to; returns how long each took, ms."""
    took = []
    for kind in kinds:
        said = client.tell(kind)
        check(said['status'] == 0, f'{kind}: {said}')
        took.append(said['ms'])
    return took


def goes_on(client):
    """As works(), but a short reply may have gone to where the client was."""
    netlab.wait_for(lambda: client.tell(f'short 100 {SHORT_MS}')['status'] == 0, 'a short reply comes')
    client.tell('take')  # late ones
    return works(client)


def writes(server, client, kind=''):
    """The server writes to the client; returns how long that took, ms."""
    said = server.tell(f'write {kind}')
    check(said['status'] == 0, f'write {kind}: {said}')
    check(client.tell('take')['n'] == 1, f'write {kind}: the message did not come once')
    return said['ms']


def figures(took):
    return ', '.join(f'{ms:.0f}' for ms in took) + ' ms'


@contextlib.contextmanager
def behind_nat(**env):
    with netlab.Lab() as lab:
        server_host = lab.host('s')
        router = Router(lab, server_host)
        server = Peer(server_host, 'serve', NAME, RIPC_BACKENDS='udp', **env)
        peers = {'RIPC_PEERS': server_host.addresses[4], 'RIPC_BACKENDS': 'udp', **env}
        yield router, server, peers


def replied():
    """Each kind of message first, each of a client that is new to the server."""
    with behind_nat() as (router, server, env):
        took = []
        for kind in KINDS:
            client = Peer(router.client, 'use', NAME, **env)
            took += works(client, (kind,))
            works(client)
        n_sent = len(KINDS) * (1 + len(KINDS))
        check(server.tell('writers')['n'] == n_sent, 'not each message came once')
        return figures(took)


def written_to():
    """The server writes by itself, while the way is open: not to the ID alone, which anybody may claim."""
    with behind_nat() as (router, server, env):
        client = Peer(router.client, 'use', NAME, **env)
        works(client, KINDS[:1])
        took = [writes(server, client), writes(server, client, 'short')]
        by_id = server.tell('write id')
        check(by_id['status'] == ENOENT and client.tell('take')['n'] == 0, f'written to by ID: {by_id}')
        took += [writes(server, client), writes(server, client, 'short')]
        return figures(took)


def ended():
    """A partner that has said goodbye, or was silent for a minute, is written to no more."""
    with behind_nat() as (router, server, env):
        for name in ('inside', 'also inside'):
            client = Peer(router.client, 'use', NAME, name, **env)
            works(client)
            writes(server, client)
            client.process.popen.stdin.close()
            client.process.popen.wait()
            netlab.wait_for(lambda: server.tell('write short')['status'] == ENOENT, 'its end is noticed')
            check(server.tell('write')['status'] == ENOENT, 'a long message is accepted')
        return 'noticed'


def many_clients():
    """As many as a new server might meet at once, all behind one address."""
    with behind_nat() as (router, server, env):
        clients = [Peer(router.client, 'use', NAME, **env) for _ in range(CLIENTS)]
        for client in clients:
            client.process.popen.stdin.write('long 1000\n')
            client.process.popen.stdin.flush()
        said = [client.process.json() for client in clients]
        failed = [each for each in said if each['status']]
        check(not failed, f'{len(failed)} of {len(said)} had no reply: {failed[:3]}')
        return figures(sorted(each['ms'] for each in said)[::CLIENTS - 1])


def with_a_name():
    """The client has a name of its own."""
    with behind_nat() as (router, server, env):
        client = Peer(router.client, 'use', NAME, 'inside', **env)
        return figures(works(client) + [writes(server, client)])


def forgotten():
    """The NAT forgets its mappings, and the next ones have other ports."""
    with behind_nat() as (router, server, env):
        client = Peer(router.client, 'use', NAME, **env)
        works(client)
        router.forget()
        took = works(client, ('long 300000',))
        took += goes_on(client)
        router.forget(SERVER_PORTS)
        took += goes_on(client)
        took += [writes(server, client), writes(server, client, 'short')]
        return figures(took)


def with_keys():
    with netlab.Lab() as lab:
        server_host = lab.host('s')
        router = Router(lab, server_host)
        with keys(server_host) as ours, keys(server_host, '--like', ours) as theirs:
            server = Peer(server_host, 'serve', NAME, RIPC_BACKENDS='udp', RIPC_KEYS=ours)
            client = Peer(router.client, 'use', NAME, RIPC_BACKENDS='udp', RIPC_KEYS=theirs,
                          RIPC_PEERS=server_host.addresses[4])
            took = works(client) + [writes(server, client), writes(server, client, 'short')]
            router.forget()
            return figures(took + goes_on(client) + [writes(server, client)])


def by_the_store():
    """The store names an address of the client that nobody outside can reach."""
    if zookeeper.missing():
        return f'skipped: {zookeeper.missing()}'
    with netlab.Lab() as lab:
        server_host = lab.host('s')
        router = Router(lab, server_host)
        store = zookeeper.Server(server_host).start()
        try:
            store.ready()
            env = {'RIPC_BACKENDS': 'udp', 'RIPC_OPTIONS':
                   f'store.servers={server_host.addresses[4]}:{zookeeper.PORT}'}
            server = Peer(server_host, 'serve', NAME, **env)
            client = Peer(router.client, 'use', NAME, **env)
            took = works(client) + [writes(server, client), writes(server, client, 'short')]
            router.forget()
            return figures(took + goes_on(client) + [writes(server, client)])
        finally:
            store.close()


if __name__ == '__main__':
    netlab.main([replied, written_to, ended, many_clients, with_a_name,
                 forgotten, with_keys, by_the_store], 'nft')
