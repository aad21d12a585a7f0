# SPDX-License-Identifier: BSD-3-Clause
"""Many to one, both ways at once, and beside TCP."""
import netlab
from netlab import check
from xfer import SERVICE, finish, send, serve, transfer


def incast(senders, size):
    with netlab.Lab() as lab:
        switch = lab.bridge()
        receiver = lab.host('r')
        lab.attach(receiver, switch, 100)
        server = serve(receiver)
        clients = []
        for i in range(senders):
            host = lab.host(f's{i}')
            lab.attach(host, switch, i + 1)
            clients.append(send(host, size, '--on-line'))
        for client in clients:
            client.line('found')
        for client in clients:
            client.popen.stdin.write('go\n')
            client.popen.stdin.flush()
        for client in clients:
            message = client.json()
            check(message['status'] == 0, f'not delivered: {message}')
            client.end()
        received = server.end()
        check(received['longs'] == senders and received['wrong'] == 0, f'{received}')
        return f'{received["bytes"] >> 20} MiB from {senders}'


def incast_of_8():
    return incast(8, '25M' if netlab.FULL else '8M')


def incast_of_8_small():
    return incast(8, '100K')


def both_ways():
    """Each of two sends to the other at the same time."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        program = netlab.program('xfer')
        server_a, server_b = a.start(program, 'serve', '--id', 1), b.start(program, 'serve', '--id', 2)
        server_a.line('ready')
        server_b.line('ready')
        clients = [a.start(program, 'send', '--to', 2, '--bytes', '20M', '--pieces', 3),
                   b.start(program, 'send', '--to', 1, '--bytes', '20M', '--pieces', 3)]
        for client in clients:
            client.end()
        for server in (server_a, server_b):
            received = server.end()
            check(received['longs'] == 3 and received['wrong'] == 0, f'{received}')


def many_at_once():
    """2,000 messages from 0 to 100,000 bytes, 64 at once, with nothing lost."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        for size in (0, 1, 8, 1000, 1400, 1500, 10000, 100000):
            server = serve(b)
            finish(send(a, size, '--pieces', 250, '--depth', 64), server, 250)


def small_receive_buffer():
    """A receiver that the kernel grants little: credit follows, and all arrives."""
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        return transfer(a, b, '20M', env={'RIPC_OPTIONS': 'udp.rcvbuf=65536'})


def without_offload():
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        return transfer(a, b, '50M', env={'RIPC_OPTIONS': 'udp.gso=off,udp.gro=off'})


def narrow_link_beside_tcp():
    """
    Both streams get through a link of 100 Mbit/s; who got how much is for bench/compare/net_ratios.py.
    """
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        device, _ = lab.link(a, b)
        a.rate(device, 100)
        tcp = b.start(netlab.program('tcpxfer'), 'sink', 5001, 60)
        tcp.line('ready')
        flow = a.start(netlab.program('tcpxfer'), 'flow', b.addresses[4], 5001, 3)
        result = transfer(a, b, '15M')
        flow.end()
        return f'{result}; TCP beside it {tcp.end()["bytes"] >> 20} MiB'


if __name__ == '__main__':
    netlab.main([incast_of_8, incast_of_8_small, both_ways, many_at_once, small_receive_buffer,
                 without_offload, narrow_link_beside_tcp], 'tc')
