# SPDX-License-Identifier: BSD-3-Clause
"""Which path is taken without anybody's asking: shared memory on a host, UDP between hosts."""
import os

import netlab
from netlab import check
from xfer import SERVICE, finish, send, serve

RIPC = '../../../tools/ripc'


def path(host):
    """By which backend is the service reached from there, and why by none of the others?"""
    process = host.start(os.path.join(netlab.PROGRAMS, RIPC), 'ping', str(SERVICE), '-c', '3',
                         '--json')
    answer = process.end()
    return answer['backend'], answer['others']


def chosen(a, b, wanted, wanted_others):
    server = serve(b)
    found, others = path(a)
    check(found == wanted, f'the path is {found}, not {wanted}')
    check(wanted_others in others, f'of the others is said: {others}')
    return f'{finish(send(a, "20M"), server)}, by {found}, not by {others}'


def one_host():
    with netlab.Lab() as lab:
        host = lab.host('h')
        return chosen(host, host, 'shm', 'udp: lower priority')


def two_network_namespaces():
    with netlab.Lab() as lab:
        a, b = lab.host('a'), lab.host('b')
        lab.link(a, b)
        return chosen(a, b, 'udp', 'shm: another host')


netlab.main([one_host, two_network_namespaces])
