# SPDX-License-Identifier: BSD-3-Clause
"""
A server that says nothing by itself gets another address, or loses the network in use: clients that
know it follow, with messages of every kind.

usage: test_moving.py DIRECTORY [--full] [--runs=N] [--figures] [CASE...]
"""
import contextlib
import json
import statistics
import sys
import threading
import time

import netlab
from netlab import check
from test_keys import keys

ASKING = ('call-500', 'call-1500', 'call-2400', 'call-5000', 'call-11000', 'long-500', 'long-2400',
          'long-11000', 'ping')
SENDING = ('short', 'group')
GAP_MS = 60  # a shorter one is no gap
BOUND_MS = 20000  # many times what it takes: an event that is never noticed exceeds it
RUNS = next((int(each[7:]) for each in sys.argv if each.startswith('--runs=')), None)


class Listener(threading.Thread):
    """Reads what a program says, and keeps it."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.said, self.changed = process, [], threading.Condition()
        self.start()

    def run(self):
        for line in self.process.popen.stdout:
            with self.changed:
                if line.startswith('{'):
                    self.said.append(json.loads(line))
                else:
                    self.said.append({'kind': 'text', 'line': line})
                self.changed.notify_all()

    def wait(self, found, what):
        """The first thing said for which found() is true."""
        end = time.monotonic() + BOUND_MS / 1e3
        with self.changed:
            while True:
                for each in self.said:
                    if found(each):
                        return each
                left = end - time.monotonic()
                if left <= 0:
                    raise netlab.Failure(f'{what}: not within {BOUND_MS} ms; said {self.said[-5:]}')
                self.changed.wait(left)


class Pair:
    """A server and a client that uses it, on two networks or one, of these families."""

    def __init__(self, lab, nets=2, kinds=ASKING + SENDING + ('watch',), directories=None,
                 late=False, families=(4,), dad=False):
        self.lab, self.late, self.families = lab, late, families
        self.server, self.client = lab.host('s'), lab.host('c')
        if dad:
            self.server.run('sysctl', '-q', '-w', 'net.ipv6.conf.default.accept_dad=1',
                            'net.ipv6.conf.all.accept_dad=1')
        self.nets = [self.join(number) for number in range(1 if late else nets)]
        environment = [{'RIPC_KEYS': each} for each in directories] if directories else [{}, {}]
        program = netlab.program('moving')
        self.serving = Listener(self.server.start(program, 'serve', 'moving', 'movers', **environment[0]))
        self.serving.wait(lambda said: 'ready' in said, 'the server is ready')
        self.using = Listener(self.client.start(program, 'use', 'moving', 'movers', *kinds, **environment[1]))
        self.kinds = kinds
        for kind in kinds:
            if kind != 'watch' and not late:
                self.of(kind).wait(lambda said, kind=kind: said.get('kind') == kind, f'{kind} works')

    def of(self, kind):
        return self.serving if kind in SENDING else self.using

    def join(self, number):
        """A switch of its own for each network: that one end fails is not seen at the other."""
        switch = self.lab.bridge(f'w{number}')
        names = []
        for host, end in ((self.server, 1), (self.client, 2)):
            device, port = self.lab.veth(host, switch)
            switch.ip('link', 'set', port, 'master', 'br')
            if self.late:
                host.ip('link', 'set', device, 'down')
            else:
                self.give(host, device, number, end)
            names.append((device, port))
        return switch, names

    def give(self, host, device, number, end, dad=False):
        for family in self.families:
            host.ip('address', 'add', self.address(family, number, end), 'dev', device,
                    *(['nodad'] if family == 6 and not dad else []))

    @staticmethod
    def address(family, number, end):
        return f'10.98.{number}.{end}/24' if family == 4 else f'fd98:{number:x}::{end:x}/64'

    def move(self, end=1, to=77, dad=False):
        """The server's address in the network in use changes."""
        number = self.network_in_use()
        device = self.nets[number][1][0][0]
        for family in self.families:
            self.server.ip('address', 'del', self.address(family, number, end), 'dev', device)
        self.give(self.server, device, number, to, dad)
        self.settle(device)

    def settle(self, device):
        """Waits until no address of the server is tentative."""
        netlab.wait_for(lambda: 'tentative' not in self.server.ip('-6', 'address', 'show', 'dev', device),
                        'no address is tentative')

    def lose_family(self, family, end=1):
        """The server's addresses of one family go."""
        for number, (_, ((device, _), _)) in enumerate(self.nets):
            self.server.ip('address', 'del', self.address(family, number, end), 'dev', device)

    def network_in_use(self):
        """The number of the network by which the client's packets go."""
        def sent(number):
            device = self.nets[number][1][1][0]
            return int(self.client.run('cat', f'/sys/class/net/{device}/statistics/tx_packets'))
        before = [sent(number) for number in range(len(self.nets))]
        time.sleep(0.2)
        after = [sent(number) for number in range(len(self.nets))]
        return max(range(len(before)), key=lambda number: after[number] - before[number])

    def followed_ms(self, began):
        """How long after an event each kind works again."""
        took = {}
        for kind in self.kinds:
            if kind == 'watch':
                continue
            found = self.of(kind).wait(lambda said, kind=kind: said.get('kind') == kind and
                                       said['at_ms'] > began, f'{kind} follows')
            took[kind] = found['at_ms'] - began if found['gap_ms'] >= GAP_MS else 0
        lost = [said for said in self.using.said if said.get('kind') == 'watch' and not said['there']]
        check(not lost, f'the watch said that the server has gone: {lost}')
        return took


def now_ms():
    return time.monotonic() * 1e3


@contextlib.contextmanager
def pair(with_keys=False, **how):
    with netlab.Lab() as lab:
        if not with_keys:
            yield Pair(lab, **how)
            return
        with keys(lab.host('k')) as ours, keys(lab.hosts[0], '--like', ours) as theirs:
            yield Pair(lab, directories=(ours, theirs), **how)


def address_changes(one):
    one.move()


def address_changes_with_dad(one):
    one.move(dad=True)


def ipv4_goes(one):
    one.lose_family(4)


def network_goes(one):
    number = one.network_in_use()
    one.server.ip('link', 'set', one.nets[number][1][0][0], 'down')


def switch_fails(one):
    """Nobody's interface is down: packets are lost on the way."""
    number = one.network_in_use()
    switch, ((_, port), _) = one.nets[number]
    switch.drop(port, 'meta protocol { ip, ip6 }')
    server = one.server
    server.drop(one.nets[number][1][0][0], 'meta protocol { ip, ip6 }')


def vpn_comes(one):
    """The new path is the only one soon after."""
    one.nets.append(one.join(1))
    one.server.ip('link', 'set', one.nets[0][1][0][0], 'down')


def vpn_goes(one):
    """The first network is there again, and the interface of the other one is deleted."""
    one.server.ip('link', 'set', one.nets[0][1][0][0], 'up')
    one.server.ip('link', 'delete', one.nets[1][1][0][0])


def repeat(events, runs, **how):
    """Runs an event, or several in turn, so often; the figures of all kinds."""
    all_ms = []
    for _ in range(RUNS or runs):
        with pair(**how) as one:
            for event in events if isinstance(events, tuple) else (events,):
                event(one)
                took = one.followed_ms(now_ms())
                all_ms += took.values()
                if '--figures' in sys.argv:
                    print({kind: round(ms) for kind, ms in took.items()}, flush=True)
    all_ms.sort()
    return (f'{RUNS or runs} runs: median {statistics.median(all_ms):.0f} ms, '
            f'90 % {all_ms[int(0.9 * (len(all_ms) - 1))]:.0f} ms, most {all_ms[-1]:.0f} ms')


def address_one_network():
    """Its only address changes."""
    return repeat(address_changes, 1, nets=1)


def address_two_networks():
    """One of two addresses changes, with keys."""
    return repeat(address_changes, 1, with_keys=True)


def network_down():
    """The network in use goes down at the server, with a second one up, with keys."""
    return repeat(network_goes, 1, with_keys=True)


def network_down_open():
    return repeat(network_goes, 1)


def vpn_comes_and_goes():
    return repeat((vpn_comes, vpn_goes), 1, nets=1, with_keys=True)


def address_one_network_ipv6():
    """The only address of a host without IPv4 changes."""
    return repeat(address_changes, 1, nets=1, families=(6,))


def address_two_networks_ipv6():
    return repeat(address_changes, 1, with_keys=True, families=(6,))


def address_dad_ipv6():
    """The kernel checks the new address for a duplicate first. The time is counted from then on."""
    return repeat(address_changes_with_dad, 1, nets=1, families=(6,), dad=True)


def network_down_ipv6():
    return repeat(network_goes, 1, with_keys=True, families=(6,))


def network_silent_ipv6():
    return repeat(switch_fails, 1, families=(6,))


def address_two_families():
    """Both addresses of a host with IPv4 and IPv6 change."""
    return repeat(address_changes, 1, nets=1, families=(4, 6))


def ipv4_lost():
    """A host with both families loses its IPv4 address, which was in use."""
    return repeat(ipv4_goes, 1, nets=1, families=(4, 6))


def interface_later(**how):
    """Both hosts get their interface only when both programs run, and nobody says anything."""
    all_ms = []
    for _ in range(RUNS or 1):
        with netlab.Lab() as lab:
            one = Pair(lab, kinds=('call-500', 'long-500', 'ping', 'short', 'group'), late=True, **how)
            for host, end in ((one.server, 1), (one.client, 2)):
                device = one.nets[0][1][end - 1][0]
                if 6 not in one.families:
                    one.give(host, device, 0, end)
                host.ip('link', 'set', device, 'up')
                if 6 in one.families:  # memory transferred before would have gone with "down"
                    one.give(host, device, 0, end)
            began = now_ms()
            for kind in one.kinds:
                found = one.of(kind).wait(lambda said, kind=kind: said.get('kind') == kind, f'{kind} works')
                all_ms.append(max(0, found['at_ms'] - began))
    return f'median {statistics.median(all_ms):.0f} ms, most {max(all_ms):.0f} ms'


def interface_later_ipv6():
    return interface_later(families=(6,))


def network_silent():
    """The network in use loses all packets, and nobody is told."""
    return repeat(switch_fails, 1)


def shorts_alone():
    """As network_silent(), and nothing but shorts, which nobody acknowledges."""
    return repeat(switch_fails, 1, kinds=('short',)) + '; to a group ' + repeat(switch_fails, 1, kinds=('group',))


if __name__ == '__main__':
    netlab.main([address_one_network, address_two_networks, network_down, network_down_open,
                 network_silent, shorts_alone, interface_later, vpn_comes_and_goes, address_one_network_ipv6,
                 address_two_networks_ipv6, address_dad_ipv6, network_down_ipv6, network_silent_ipv6,
                 address_two_families, ipv4_lost, interface_later_ipv6], 'nft')
