# SPDX-License-Identifier: BSD-3-Clause
"""Groups, and datagrams to many of their members, written from docs/protocol.md alone: both ends, and the steps
of test_interop.py about them.
"""
import socket
import struct
import time
from types import SimpleNamespace as Bag

import peer as peers
import protocol as w
from peer import cut

PORT = 15512
NEWS, OTHER = w.group_id('interop.news'), w.group_id('interop.other')
OURS, THEIRS = w.name_id('interop.peer'), w.name_id('interop.partner')
ENOENT = 2
IP_RECVTTL = 12  # as Linux has it


def address_of(group):
    number = 0
    for part in struct.unpack('<HHHH', struct.pack('<Q', group)):
        number ^= part
    return f'239.255.{number >> 8}.{number & 255}'


def lower(number):
    return number & 0xffffffff


class Stream:
    """The stream of a service to many members of a group."""

    def __init__(self, peer, group, number):
        self.peer, self.group, self.token, self.first = peer, group, peers.number(), number
        for option, value in ((socket.IP_MULTICAST_IF, socket.inet_aton(peer.address)), (socket.IP_MULTICAST_LOOP, 0)):
            peer.udp.setsockopt(socket.IPPROTO_IP, option, value)

    def tell(self, partner):
        self.peer.send(partner, w.STREAM, 0, struct.pack('<QQQ', self.group, self.token, self.first))

    def many(self, size, number, sock=None, token=None, dst=None, **parts):
        data = w.write(w.SHORT, self.peer.incarnation, dst or self.group, token or self.token, number, b'',
                       cut(size)[0], 1 << 8, lends=self.group, call=(4, 0), **parts)
        sock = sock or self.peer.udp
        where = address_of(self.group)
        sock.sendto(data, (where if sock.family == socket.AF_INET else '::ffff:' + where, PORT))

    def copy(self, partner, size, number=0):
        self.peer.short(partner, cut(size), lends=self.group, call=(4, lower(number)))


class Member:
    """
    A peer that has joined a group. Multicast datagrams arrive at a socket that `loop`, a peer,
    polls.
    """

    def __init__(self, peer, group, loop):
        self.peer, self.group, self.streams, self.deaf, self.malformed = peer, group, {}, False, []
        self.log, self.told, self.came, self.copies, self.doubles = [], [], [], [], 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        self.sock.bind(('', PORT))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                             socket.inet_aton(address_of(group)) + socket.inet_aton(peer.address))
        loop.files[self.sock] = self.read
        self.loop, peer.member = loop, self
        for _ in range(2):
            loop.group.sendto(peer.record(group=group), (peers.GROUP, peers.PORT))

    def leave(self):
        self.loop.group.sendto(w.write_resolver(w.WITHDRAWN, 0, self.peer.context, self.group,
                                                rest=struct.pack('<Q', self.peer.incarnation)), (peers.GROUP, peers.PORT))
        for incarnation, stream in self.streams.items():
            stream.highest = 0
            self.answer(self.peer.partners[incarnation], stream)
        self.peer.member = None
        del self.loop.files[self.sock]
        self.sock.close()

    def stream(self, partner):
        return self.streams.setdefault(partner.incarnation, Bag(token=0, first=0, highest=0, numbers=set()))

    def on_copy(self, partner, p):
        if p.lends == self.group:
            self.copies.append(p)
            self.take(self.stream(partner), p, p.call[1])

    def take(self, stream, p, number):
        """A number comes once, by whichever way; 0 is none."""
        if number and number in stream.numbers:
            self.doubles += 1
            return
        stream.numbers.add(number)
        self.came.append(p)

    def on_stream(self, partner, p):
        group, token, number = p.stream
        if group != self.group:
            return
        stream = self.stream(partner)
        if not stream.token:
            stream.token, stream.first = token, number
        if token == stream.token:
            self.told.append(p)
            self.answer(partner, stream)

    def answer(self, partner, stream):
        self.peer.send(partner, w.HEARD, 0, struct.pack('<QQQ', self.group, stream.token, stream.highest))

    def read(self):
        data, parts, _, where = self.sock.recvmsg(65536, socket.CMSG_SPACE(4))
        if self.deaf:
            return
        try:
            p = w.decode_many(data)
        except w.Malformed as wrong:
            self.malformed.append((str(wrong), data.hex()))
            return
        partner = self.peer.partners.get(p.src)
        p.where, p.ttl = where, struct.unpack('=i', parts[0][2])[0]
        if p.dst == self.group and partner and self.is_from(partner, where):
            self.on_many(partner, p)

    @staticmethod
    def is_from(partner, where):
        return (partner.where[0].rpartition(':')[2], partner.where[1]) == where

    def on_many(self, partner, p):
        stream = self.stream(partner)
        if p.token != stream.token:
            return
        is_first, stream.highest = not stream.highest, max(stream.highest, p.number)
        if is_first:
            self.answer(partner, stream)
        if p.number >= stream.first:
            self.log.append(p)
            self.take(stream, p, lower(p.number))


# ---- the peer sends ----------------------------------------------------------------------------


def heard(test, stream, number, act=None):
    """
    The action, by default STREAM, again as long as multicasts may be on their way, brings HEARD
    with this number.
    """
    at = len(test.peer.log)
    numbers = lambda: [p.stream[2] for p in test.peer.saw(w.HEARD, at) if p.stream[:2] == (stream.group, stream.token)]
    for _ in range(1 if act else 50):
        begun = len(numbers())
        (act or (lambda: stream.tell(test.partner)))()
        test.wait(lambda: len(numbers()) > begun, 'no HEARD')
        if numbers()[-1] == number:
            return
        time.sleep(0.02)
    raise AssertionError(f'{numbers()} instead of {number}')


def no_member(test):
    """The service has not joined: a short is dropped, a long one is refused, and STREAM has no answer."""
    peer, partner = test.peer, test.partner
    at, stream = len(peer.log), Stream(peer, OTHER, 5)
    stream.copy(partner, 11)
    stream.tell(partner)
    send = peer.long(partner, cut(600), lends=OTHER, call=(4, 0))
    assert test.outcome(send) == ENOENT
    test.pause()
    assert not test.lines and not peer.saw(w.HEARD, at)


def joins(test):
    """Its member says so, and answers."""
    peer, at = test.peer, len(test.peer.heard)
    assert test.order('join @interop.news') == 0
    notices = lambda: [p for p in peer.heard[at:] if p.type == w.RECORD and p.id == NEWS]
    test.wait(lambda: len(notices()) == 2, 'no second notice')
    nonce = peer.ask(0)[0].nonce
    for record in (*notices(), *peer.ask(NEWS)):
        assert (record.stamp, record.incarnation) == (THEIRS, test.partner.incarnation)
    assert [p.id for p in peer.heard if p.nonce == nonce] == [THEIRS], 'a query about all is about no group'


def first_stream(test):
    """A copy overtakes STREAM; then to many: each number once, whichever way it has come."""
    peer, partner, first = test.peer, test.partner, (7 << 32) - 4
    stream = test.stream = Stream(peer, NEWS, first)
    came = lambda size: test.came('short', size, where='group')
    stream.copy(partner, 20, first)
    came(20)
    stream.many(21, first)
    test.pause()
    heard(test, stream, 0)
    heard(test, stream, first - 1, lambda: stream.many(21, first - 1))
    stream.many(21, first)
    stream.many(22, first + 1)
    came(22)
    stream.many(23, first + 1)
    stream.copy(partner, 23, first + 1)
    stream.copy(partner, 24, first + 2)
    came(24)
    stream.many(23, first + 2)
    heard(test, stream, first + 2)
    for number in (first + 5, first + 3):  # 7 << 32 is left out
        stream.many(25, number)
        came(25)
    stream.copy(partner, 26, first + 5)
    for _ in range(2):
        stream.copy(partner, 27)
        came(27)
    heard(test, stream, first + 5)
    assert not test.lines, 'a number came twice'


def nothing_counts(test):
    """Wrong in one way each: nothing comes, and nothing is answered."""
    peer, stream, number = test.peer, test.stream, test.stream.first + 6
    at = len(peer.log)
    stream.many(30, number, token=stream.token ^ 1)
    stream.many(30, stream.first - 1)
    stream.many(30, number, dst=OTHER)
    stream.many(30, number, ack=(1, 0, 0, 0))
    stream.many(30, number, hello=(test.partner.given, OURS, peer.context, THEIRS, 0, 65536))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(peer.address))
        stream.many(30, number, sock=other)
    stream.many(31, number)
    test.came('short', 31, where='group')
    test.pause()
    assert not test.lines and not peer.said(at), (test.lines, peer.said(at))


def another_token(test):
    """A service has one stream: STREAM with another token is not believed."""
    peer, partner, stream = test.peer, test.partner, test.stream
    at, other = len(peer.log), Stream(peer, NEWS, stream.first + (1 << 21))
    other.tell(partner)
    test.pause()
    other.many(40, other.first)
    stream.many(41, stream.first + 7)
    test.came('short', 41, where='group')
    heard(test, stream, stream.first + 7)
    assert not test.lines and {p.stream[1] for p in peer.saw(w.HEARD, at)} == {stream.token}


def leaves(test):
    """HEARD 0 says so. A returned member hears nothing until STREAM comes."""
    stream, number = test.stream, test.stream.first + 8
    heard(test, stream, 0, lambda: test.order('leave @interop.news'))
    assert test.order('join @interop.news') == 0
    stream.many(50, number)
    test.pause()
    heard(test, stream, 0)
    stream.copy(test.partner, 51, number)
    test.came('short', 51, where='group')
    stream.many(52, number + 1)
    test.came('short', 52, where='group')
    assert not test.lines


# ---- the program sends -------------------------------------------------------------------------


def tally(member, sizes):
    """
    For messages of these lengths: how many have come, in how many copies, and how many by
    multicast.
    """
    return tuple(len([p for p in packets if p.type == w.SHORT and len(p.payload) in sizes])
                 for packets in (member.came, member.copies, member.log))


def send(test):
    test.size += 1
    status = test.order(f'short @interop.news {test.size} 1')
    assert status == 0, status
    test.peer.run(lambda: False, 0.005)


def send_until(test, **wants):
    """The program sends shorts, each of another length, until the last dozen of them come to each member as they
    should.
    """
    found = None
    while found != wants and test.size < 850:  # a short to a group has 896 bytes at most
        send(test)
        last = range(test.size - 13, test.size - 1)
        found = {name: tally(member, last) for name, member in test.members.items()}
    assert found == wants, found


def other_peer(test, name):
    """Another context of the peer's host. The peer answers queries for it."""
    peer, other = test.peer, peers.Peer('interop.peer.' + name, test.peer.address)
    other.asking.close()
    other.group.close()
    peer.files[other.udp] = lambda: other.on_datagram(other.udp, *other.udp.recvfrom(65536))
    peer.others.append(other)
    return other


def member_joins(test, name, peer):
    test.members[name] = Member(peer, NEWS, test.peer)


def two_members(test):
    """As fewer than three hear, only the first short after each STREAM goes to many; and with it, a copy to a member
    that does not hear yet.
    """
    assert test.order('leave @interop.news') == 0
    member_joins(test, 'peer', test.peer)
    member_joins(test, 'a', other_peer(test, 'a'))
    assert test.order('resolve @interop.news') == 0
    one, two = members = test.members.values()
    while len(two.log) < 3 and test.size < 200:
        send(test)
    test.wait(lambda: len(one.came) == test.size, 'not all have come')
    for member in members:
        told, log = len(member.told), len(member.log)
        assert told - 2 <= log <= told and log >= 3, (told, log)
        assert len(member.copies) + log == len(member.came) + member.doubles


def four_members(test):
    """No copies for those who hear."""
    for name in 'bc':
        member_joins(test, name, other_peer(test, name))
    send_until(test, **dict.fromkeys(test.members, (12, 0, 12)))


def deaf_member(test):
    """
    Three hear. A member that does not hear gets copies, and no others do; after a while it hears
    again.
    """
    test.members['b'].deaf = True
    send_until(test, peer=(12, 0, 12), a=(12, 0, 12), b=(12, 12, 0), c=(12, 0, 12))
    test.members['b'].deaf = False
    send_until(test, **dict.fromkeys(test.members, (12, 0, 12)))


def row(test):
    """One stream; its numbers follow one another; the datagrams come from the program's port, with TTL 1."""
    for member in test.members.values():
        assert not member.malformed and not member.peer.malformed, (member.malformed, member.peer.malformed)
        assert {p.ttl for p in member.log} == {1}
        assert len({p.stream[:2] for p in member.told}) == 1
        sizes = [len(got.payload) for got in member.came]
        assert len(sizes) == len(set(sizes)), 'a message came twice'
    log, told = test.members['peer'].log, [p.stream[2] for p in test.members['peer'].told]
    assert told == sorted(told) and 1 << 32 < told[0] <= log[0].number, told
    assert [p.number - log[0].number for p in log] == list(range(len(log)))
    assert test.members['peer'].doubles, 'nothing came both ways'
    payloads = {lower(p.number): p.payload for p in log}
    for copy in (copy for member in test.members.values() for copy in member.copies):
        assert payloads.get(copy.call[1], copy.payload) == copy.payload, 'a copy names another message'


def members_leave(test):
    for member in test.members.values():
        member.leave()
    for other in test.peer.others:
        partner = other.partners[test.partner.incarnation]
        other.send_word(partner, w.GONE, partner.given)
        del test.peer.files[other.udp]
        other.close()
    test.peer.others.clear()


STEPS = (no_member, joins, first_stream, nothing_counts, another_token, leaves,
         two_members, four_members, deaf_member, row, members_leave)
