# SPDX-License-Identifier: BSD-3-Clause
"""Which path is taken without anybody's asking: shared memory on a host, UDP between hosts."""
import os

import netlab
from netlab import check
from xfer import SERVICE, finish, send, serve

RIPC = '../../tools/ripc'


def path(host):
    """By which backend is the service reached from there?"""
    process = host.start(os.path.join(netlab.PROGRAMS, RIPC), 'ping', str(SERVICE), '-c', '3',
                         '--json')
    return process.end()['backend']


def chosen(a, b, wanted):
    server = serve(b)
    found = path(a)
    check(found == wanted, f'the path is {found}, not {wanted}')
    return f'{finish(send(a, "20M"), server)}, by {found}'


def one_host():
    with netlab.Lab() as lab:
        host = lab.host('h')
        return chosen(host, host, 'shm')


def two_network_namespaces():
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        return chosen(a, b, 'udp')


netlab.main([one_host, two_network_namespaces])
