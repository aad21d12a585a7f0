# SPDX-License-Identifier: BSD-3-Clause
"""Shorts to groups with many members on other hosts: one datagram for all, where that works."""
import os
import statistics
import time

import netlab
import test_group
from netlab import check

HOSTS, EACH, NEAR = 5, 3, 2  # members on so many hosts, and on the sender's
FAR = HOSTS * EACH


class Segment:
    """A sender's host and others, with members on all."""

    def __init__(self, lab, **env):
        switch, self.hub = lab.bridge(), lab.host('hub')
        self.hosts = [lab.host(f'h{number}') for number in range(HOSTS)]
        lab.attach(self.hub, switch, 1)
        self.devices = [lab.attach(host, switch, end)[0]
                        for end, host in enumerate(self.hosts, 2)]
        self.far = [test_group.member(host, **env) for host in self.hosts for _ in range(EACH)]
        self.near = [test_group.member(self.hub, **env) for _ in range(NEAR)]

    def sender(self, shorts, **env):
        """A sender that has found all members, and begins to send."""
        client = test_group.sender(self.hub, '--members', FAR + NEAR, '--shorts', shorts,
                                   '--timeout', 60000, **env)
        check(client.json()['found'] == FAR + NEAR, 'not all were found')
        return client

    def heard(self, shorts):
        """How many shorts each far member has got; none got one twice."""
        said = [process.end() for process in self.far + self.near]
        check(all(entry['twice'] == 0 and entry['foreign'] == 0 for entry in said), f'{said}')
        # Beside busy processes a member on the sender's host may lose some of its short queue.
        check(min(entry['shorts'] for entry in said[FAR:]) > shorts // 2, f'{said}')
        return [entry['shorts'] for entry in said[:FAR]]


def one_for_all():
    """Members on other hosts get one datagram together, those here one each."""
    shorts = 3000
    with netlab.Lab() as lab:
        segment = Segment(lab)
        client = segment.sender(shorts)
        sent = client.json()
        heard = segment.heard(shorts)
        client.end()
        check(sent['refused'] == 0 and min(heard) > shorts * 98 // 100, f'{sent}: {heard}')
        check(sent['to_many'] > shorts * 8 // 10, f'not by one datagram: {sent}')
        check(sent['datagrams'] < shorts * (NEAR + 4), f'too many datagrams: {sent}')
        return (f'{shorts} shorts to {FAR} members elsewhere and {NEAR} here: {sent["datagrams"]} '
                f'datagrams, {sent["to_many"]} of them to many; least received {min(heard)}')


def lost_alike():
    """A network that loses one in twenty loses as many of those that go to many."""
    shorts = 4000
    with netlab.Lab() as lab:
        segment = Segment(lab)
        client = segment.sender(shorts)
        for host, device in zip(segment.hosts, segment.devices):
            host.lose(device, 5)
        sent = client.json()
        heard = segment.heard(shorts)
        client.end()
        share = sum(heard) / FAR / shorts
        check(0.93 < share < 0.98, f'{sent}: {heard}')
        check(sent['to_many'] > shorts // 2, f'not by one datagram: {sent}')
        return f'at 5 % loss {share:.3f} come, none twice; {sent["to_many"]} to many'


def deaf_for_a_while():
    """Multicasts stop reaching one host, and reach it again: the members there get copies."""
    shorts = 16000
    with netlab.Lab() as lab:
        segment = Segment(lab)
        client = segment.sender(shorts)
        began = time.monotonic()
        time.sleep(1)
        segment.hosts[0].drop(segment.devices[0], 'ip daddr 239.255.0.0/16 udp dport 15512')
        time.sleep(4)
        segment.hosts[0].pass_all(segment.devices[0])
        sent = client.json()
        took = time.monotonic() - began
        heard = segment.heard(shorts)
        client.end()
        lost_s = (1 - min(heard[:EACH]) / shorts) * took
        check(min(heard[EACH:]) > shorts * 98 // 100, f'others lost some: {heard}')
        check(lost_s < 3.6, f'nothing for {lost_s:.1f} s of {took:.1f}: {sent}, {heard}')
        check(sent['to_many'] > shorts * 8 // 10, f'not by one datagram: {sent}')
        return (f'deaf for 4 s of {took:.1f}: lost what was sent in {lost_s:.2f} s; '
                f'least of the others {min(heard[EACH:])} of {shorts}')


def come_and_go():
    """Members die, and others join, while shorts go to many."""
    shorts = 8000
    with netlab.Lab() as lab:
        segment = Segment(lab)
        client = segment.sender(shorts)
        time.sleep(0.5)
        for process in segment.far[:EACH]:
            process.popen.kill()
        late = [test_group.member(segment.hosts[0]) for _ in range(EACH)]
        sent = client.json()
        heard = [process.end() for process in segment.far[EACH:] + segment.near + late]
        client.end()
        check(all(entry['twice'] == 0 and entry['foreign'] == 0 for entry in heard), f'{heard}')
        check(min(entry['shorts'] for entry in heard[:FAR - EACH]) > shorts * 98 // 100, f'{heard}')
        came = [entry['shorts'] for entry in heard[-EACH:]]
        check(min(came) > shorts // 10, f'too late: {came}')
        check(sent['to_many'] > shorts * 8 // 10, f'not by one datagram: {sent}')
        return f'{EACH} of {FAR} killed, {EACH} new ones got {came} of {shorts}, the others all'


def switched_off():
    """With group.many=0 at either end each member gets a copy."""
    shorts = 500
    said = []
    for ends in (({'RIPC_OPTIONS': 'group.many=0'}, {}), ({}, {'RIPC_OPTIONS': 'group.many=0'})):
        with netlab.Lab() as lab:
            segment = Segment(lab, **ends[0])
            client = segment.sender(shorts, **ends[1])
            sent = client.json()
            heard = segment.heard(shorts)
            client.end()
            check(min(heard) > shorts * 98 // 100, f'{sent}: {heard}')
            check(sent['to_many'] < 20, f'{sent}')
            said.append(sent['to_many'])
    check(said[1] == 0, f'sent to many: {said}')
    return f'{said} of {shorts} went to many'


def sender_us(hosts, each, many, shorts):
    """Processor of a sender per short, with the way through veth to the receivers' sockets."""
    with netlab.Lab() as lab:
        switch, hub = lab.bridge(), lab.host('hub')
        others = [lab.host(f'h{number}') for number in range(hosts)]
        for end, host in enumerate([hub, *others], 1):
            lab.attach(host, switch, end)
        members = [test_group.member(host) for host in others for _ in range(each)]
        client = test_group.sender(hub, '--members', len(members), '--shorts', shorts,
                                   '--timeout', 60000, RIPC_OPTIONS=f'group.many={many}')
        client.json()
        pids = netlab.descendants(client.popen.pid)
        before = netlab.processor_us(pids)
        check((client.json()['to_many'] > shorts // 2) == (many > 0), 'not by the way asked for')
        return (netlab.processor_us(pids) - before) / shorts


def cost():
    """The sender's costs of copies, and of one datagram."""
    rows = []
    shapes = ((1, 3), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8)) if netlab.FULL else ((2, 4),)
    shorts = 8000 if netlab.FULL else 500
    for hosts, each in shapes:
        pairs = [[sender_us(hosts, each, many, shorts) for many in (0, 1)]
                 for _ in range(3 if netlab.FULL else 1)]
        copies, one = (statistics.median(values) for values in zip(*pairs))
        rows.append(f'{hosts * each} members {copies:.0f} and {one:.0f} us')
    return 'by copies and by one datagram: ' + ', '.join(rows)


if __name__ == '__main__':
    os.environ.setdefault('RIPC_LOG', 'warn')
    netlab.main([one_for_all, lost_alike, deaf_for_a_while, come_and_go, switched_off, cost], 'nft')
