# SPDX-License-Identifier: BSD-3-Clause
"""Many ordered long messages of mixed sizes, over bad networks and by all ways: none out of order."""
import netlab
from netlab import check

SERVICE = 4712


def ordered(server_host, client_host, count, *arguments, **env):
    """Sends count ordered messages, and others among them; returns the relay's or nobody's word."""
    server = server_host.start(netlab.program('ordered'), 'serve', '--id', SERVICE,
                               '--count', count, **env)
    server.line('ready')
    client = client_host.start(netlab.program('ordered'), 'send', '--to', SERVICE,
                               '--count', count, *arguments, **env)
    sent, received = client.end(), server.end()
    check(sent['sent'] == count and sent['wrong'] == 0, f'not all were delivered: {sent}')
    check(received['received'] == count and received['wrong'] == 0, f'out of order: {received}')
    return f'{count} messages in order'


def count(some):
    return 1000000 if netlab.FULL else some


def loss_and_reordering():
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        relay = lab.relay(a, b, netlab.program('relay'), '--seed', 1, '--drop-ppm', 100000,
                          '--reorder-ppm', 200000)
        result = ordered(b, a, count(5000), '--most', 65536, RIPC_BACKENDS='udp')
        did = relay.end()
        check(did['dropped'] > 100 and did['reordered'] > 100, f'the relay did nothing: {did}')
        return f'{result}; {did}'


def shared_memory():
    with netlab.Lab() as lab:
        a = lab.host('a')
        return ordered(a, a, count(50000), RIPC_BACKENDS='shm')


def reads():
    """Above 64 KiB the receiver reads, and short ones come between."""
    with netlab.Lab() as lab:
        a = lab.host('a')
        return ordered(a, a, count(5000), '--least', 40000, '--most', 300000,
                       RIPC_BACKENDS='shm')


def given():
    with netlab.Lab() as lab:
        a = lab.host('a')
        return ordered(a, a, 20000 if netlab.FULL else 1000, '--least', 400000,
                       '--most', 2000000, '--give', RIPC_BACKENDS='shm')


if __name__ == '__main__':
    netlab.main([loss_and_reordering, shared_memory, reads, given])
