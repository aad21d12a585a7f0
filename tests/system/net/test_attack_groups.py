# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on shorts that go to many members of a group in one datagram.

Every host of the segment can read such a datagram. The forger does, and sends in the sender's name
datagrams that the members must not accept: from an address of its own with all else as the sender
has it, and from the sender's address without the token. Or it fills the UDP port of multicasts.
"""
import os
import socket
import struct
import time

import netlab
from forger import Forger, main, order, p, say
from netlab import check

NAME, MEMBERS = 'attacked', 4
PORT = 15512            # of what goes to many
FORGED = b'forged!!'    # shorter than what the sender sends: a member that gets it says "foreign"
GROUP_CALL = 4
UDP_HEADER = struct.Struct('!HHHH')
SHORT = struct.Struct('<40xQII')


# ---- in the forger's process ----------------------------------------------------------------

def listen():
    """The first datagram to many: who sent it, to which address, and what is in it."""
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    while True:
        data = sniffer.recv(65536)
        head = 4 * (data[0] & 15)
        if data[9] != socket.IPPROTO_UDP or data[16] != 239 or len(data) < head + 8 + SHORT.size:
            continue
        source, to, _, _ = UDP_HEADER.unpack_from(data, head)
        if to == PORT:
            return (socket.inet_ntoa(data[12:16]), source), socket.inet_ntoa(data[16:20]), data[head + 8:]


def forged(seen, number, token):
    """The same packet as the one that was seen, with another number and token and other bytes."""
    _, kind, _, _, src, dst, right, before = p.HEADER.unpack_from(seen)
    return p.write(kind, src, dst, token(right), before + (number << 8), b'', FORGED, 1 << 8, lends=dst,
                   call=(GROUP_CALL, 0))


def own_socket(address):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    return sock


def raw_socket(address):
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    return sock


def from_another(source, to, data):
    """An IP packet with a source address that is another host's."""
    udp = UDP_HEADER.pack(source[1], PORT, 8 + len(data), 0) + data
    return struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 0, 0, 1, socket.IPPROTO_UDP, 0,
                       socket.inet_aton(source[0]), socket.inet_aton(to)) + udp


def attack(per_second, packets):
    """Sends until the test says that it is enough; pairs of a socket and the arguments of sendto()."""
    began, n = time.monotonic(), 0
    while not order(False):
        for _ in range(16):
            sock, data, to = next(packets)
            try:
                sock.sendto(data, to)
                n += 1
            except OSError:  # its own queue is full
                pass
        time.sleep(max(0.0, began + n / per_second - time.monotonic()))
    say(sent=n)


def forge_shorts(address):
    say(ready=True)
    source, to, seen = listen()
    own, raw = own_socket(address), raw_socket(address)

    def packets():
        number = 0
        while True:
            number += 1
            yield own, forged(seen, number, lambda token: token), (to, PORT)
            yield raw, from_another(source, to, forged(seen, number, lambda token: token ^ 1)), (to, 0)
    attack(2000, packets())


def forge_junk(address, per_second):
    say(ready=True)
    source, to, seen = listen()
    own, raw = own_socket(address), raw_socket(address)
    wrong = [forged(seen, number, lambda token: token ^ number) for number in range(1, 17)]

    def packets():
        while True:
            for data in wrong:
                yield own, os.urandom(100), (to, PORT)
                yield own, b'', (to, PORT)
                yield own, data, (to, PORT)
                yield raw, from_another(source, to, data[:60]), (to, 0)
    attack(int(per_second), packets())


# ---- in the test ----------------------------------------------------------------------------

def read_by(host):
    """UDP datagrams that programs of a host have read."""
    heads, values = [line.split() for line in host.run('cat', '/proc/net/snmp').split('\n')
                     if line.startswith('Udp:')]
    return int(values[heads.index('InDatagrams')])


class Run:
    """Members on hosts of their own get shorts, while forgers on one's and on another host attack."""

    def __init__(self, *forgery):
        n = 10000 if netlab.FULL else 2000
        with netlab.Lab() as lab:
            switch = lab.bridge()
            hosts = [lab.host(label) for label in ['sender', 'stranger'] + MEMBERS * ['member']]
            for end, host in enumerate(hosts, 1):
                lab.attach(host, switch, end)
            members = [host.start(netlab.program('group'), 'join', NAME) for host in hosts[2:]]
            for member in members:
                member.line('ready')
            forgers = [Forger(host, forgery[0], host.addresses[4], *forgery[1:]).ready()
                       for host in hosts[1:3]] if forgery else []
            sender = hosts[0].start(netlab.program('group'), 'send', NAME, '--members', MEMBERS,
                                    '--shorts', n, RIPC_OPTIONS='group.many=3')
            check(sender.json()['found'] == MEMBERS, 'not all were found')
            before = netlab.processor_us([members[-1].popen.pid])
            said = sender.json()
            self.us = netlab.processor_us([members[-1].popen.pid]) - before
            self.sent = sum(forger.tell('end')['sent'] for forger in forgers)
            self.read = read_by(hosts[-1])
            heard = [member.end() for member in members]
        self.to_many = said['to_many'] / n
        self.share = sum(entry['shorts'] for entry in heard) / (n * MEMBERS)
        check(all(entry['foreign'] == 0 for entry in heard), f'forged shorts were taken: {heard}')
        check(all(entry['twice'] == 0 for entry in heard), f'twice: {heard}')


def compare(without, under):
    check(under.read >= under.sent // 2 > 200, f'no attack: of {under.sent} forged came {under.read}')
    check(without.to_many > 0.5, f'nothing went to many: {without.to_many}')
    check(under.to_many >= 0.8 * without.to_many, f'to many went {without.to_many}, then {under.to_many}')
    check(under.share >= 0.9 * without.share, f'of all shorts came {without.share}, then {under.share}')
    return (f'{100 * without.share:.1f} % of the shorts came, {100 * under.share:.1f} % beside {under.sent} '
            f'forged ones; a member used {without.us / 1e3:.0f} and {under.us / 1e3:.0f} ms')


def in_the_name_of_another():
    """A host that can read the token has not the address; who has the address has not the token."""
    return compare(Run(), Run('forge_shorts'))


def junk():
    """A full port keeps the members from nothing."""
    return compare(Run(), Run('forge_junk', 10000 if netlab.FULL else 4000))


if __name__ == '__main__':
    main([in_the_name_of_another, junk], {'forge_shorts': forge_shorts, 'forge_junk': forge_junk})
