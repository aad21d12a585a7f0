# SPDX-License-Identifier: BSD-3-Clause
"""Members of a group with well-known IDs: they die, begin anew, and two have one ID."""
import os
import signal
import time

import netlab
from netlab import check

NAME = 'ids'
FIRST_ID = 6001
SECONDS = 15  # many times what is needed, and less than a member was kept that nobody doubts


def member(host, number):
    process = host.start(netlab.program('group'), 'join', NAME, '--id', FIRST_ID + number)
    process.line('ready')
    return process


def sender(host, members):
    process = host.start(netlab.program('group'), 'send', NAME, '--members', members, '--longs',
                         1000000, '--bytes', 1000, '--timeout', 1000)
    found = process.json()
    check(found['found'] == members, f'not all were found: {found}')
    return process


def send_long(process):
    process.popen.stdin.write('go\n')
    process.popen.stdin.flush()
    return process.json()


def send_until_all(client, members, seconds=SECONDS):
    """Sends until a message reaches all members, and fails for nobody; returns after how long."""
    began, told = time.monotonic(), []
    while not told or told[-1]['status'] or told[-1]['delivered'] != members:
        check(time.monotonic() - began < seconds, f'still not all, and only they: {told[-3:]}')
        told.append(send_long(client))
    return time.monotonic() - began


def hosts(lab, *labels):
    """Hosts on one segment; their interfaces are called host.device."""
    switch, all_hosts = lab.bridge(), [lab.host(label) for label in labels]
    for end, host in enumerate(all_hosts, 1):
        host.device, _ = lab.attach(host, switch, end)
    return all_hosts


def kill(process):
    os.kill(process.popen.pid, signal.SIGKILL)
    process.popen.wait()


def begun_anew():
    """A member is killed and begun anew with its ID, on its host or another, told by ICMP or not."""
    took = []
    with netlab.Lab() as lab:
        a, b, c = hosts(lab, 'a', 'b', 'c')
        members = [member(b, 0), member(b, 1), member(c, 2)]
        client = sender(a, 3)
        for host, rule in ((b, None), (c, None), (b, 'ip protocol icmp'), (c, 'ip protocol icmp')):
            if rule:
                a.drop(a.device, rule)
            check(send_until_all(client, 3) < SECONDS, 'not all are back')
            kill(members[0])
            members[0] = member(host, 0)
            took.append(send_until_all(client, 3))
        client.end()
    return f'messages succeed {[round(seconds, 2) for seconds in took]} s after the member is back'


def dead_without_a_word():
    """Two members are killed, and no ICMP says so."""
    with netlab.Lab() as lab:
        a, b, c = hosts(lab, 'a', 'b', 'c')
        members = [member(b, 0), member(b, 1), member(b, 2), member(c, 3)]
        client = sender(a, 4)
        a.drop(a.device, 'ip protocol icmp')
        for process in members[:2]:
            kill(process)
        took = send_until_all(client, 2)
        client.end()
    return f'messages succeed {took:.1f} s later'


def two_with_one_id():
    """Two services that do not hear of each other have one ID: each gets the messages."""
    with netlab.Lab() as lab:
        a, b, c = hosts(lab, 'a', 'b', 'c')
        for host, other in ((b, c), (c, b)):
            mac = other.run('cat', f'/sys/class/net/{other.device}/address').strip()
            host.drop(host.device, f'ether saddr {mac}')
        first = member(b, 0)
        known = sender(a, 1)
        second = member(c, 0)
        took = send_until_all(known, 2)
        fresh = sender(a, 2)
        check(send_until_all(fresh, 2) < SECONDS, 'a new sender does not reach both')
        first.stop()
        check(send_until_all(known, 1) < SECONDS, 'the one that has left is still a member')
        for process in (known, fresh, second):
            process.end()
    return f'the second member receives {took:.2f} s after it has joined'


if __name__ == '__main__':
    netlab.main([begun_anew, dead_without_a_word, two_with_one_id])
