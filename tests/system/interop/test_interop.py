# SPDX-License-Identifier: BSD-3-Clause
"""peer.py and libripc exchange every kind of message: from two hosts on one link, and on one host.

usage: test_interop.py interop-partner
"""
import os
import socket
import struct
import subprocess
import sys
import time

import many
import peer as peers
import protocol as w
from peer import BYTES, cut

SKIP = 77
OURS, THEIRS = w.name_id('interop.peer'), w.name_id('interop.partner')
HERE, THERE, HERE6, THERE6 = '10.77.0.1', '10.77.0.2', 'fd77::1', 'fd77::2'
BIG = 400000
DELIVERED, NOT_DELIVERED, UNKNOWN = 2, 1, 3


def must(*command):
    subprocess.run(command, check=True)


class Host:
    """Another network namespace, and the link to it."""

    def __init__(self):
        self.sleeper = subprocess.Popen(['unshare', '-n', 'sleep', '600'])
        name = f'/proc/{self.sleeper.pid}/ns/net'
        while self.sleeper.poll() is None and os.readlink(name) == os.readlink('/proc/self/ns/net'):
            time.sleep(0.01)
        must('ip', 'link', 'add', 'name', 'here', 'type', 'veth', 'peer', 'name', 'there', 'netns',
             str(self.sleeper.pid))
        for enter, device, four, six in (([], 'here', HERE, HERE6), (self.enter(), 'there', THERE, THERE6)):
            must(*enter, 'ip', 'link', 'set', 'lo', 'up')
            must(*enter, 'ip', 'address', 'add', four + '/24', 'dev', device)
            must(*enter, 'ip', 'address', 'add', six + '/64', 'dev', device, 'nodad')
            must(*enter, 'ip', 'link', 'set', device, 'up')

    def enter(self):
        return ['nsenter', '-t', str(self.sleeper.pid), '-n']

    def close(self):
        self.sleeper.kill()
        self.sleeper.wait()


class Test:
    """The peer, and partner.c as another process."""

    def __init__(self, program, enter=(), address=HERE, peer=None, **variables):
        self.peer = peer or peers.Peer('interop.peer', address)
        self.lines, self.rest, self.partner = [], b'', None
        self.stream, self.members, self.size = None, {}, 0  # see many.py
        self.process = subprocess.Popen([*enter, program, 'interop.partner'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=dict(os.environ, **variables))
        os.set_blocking(self.process.stdout.fileno(), False)
        self.peer.files[self.process.stdout] = self.read

    def read(self):
        data = self.process.stdout.read()
        if not data:
            del self.peer.files[self.process.stdout]
        *lines, self.rest = (self.rest + (data or b'')).split(b'\n')
        self.lines += [line.decode() for line in lines]

    def wait(self, until, what, seconds=50):
        assert self.peer.run(until, seconds), f'{what}; lines {self.lines[-5:]}, packets {self.peer.log[-3:]}'

    def pause(self):
        """Until the program has had a turn, and then long enough for whatever would come, late repetitions among it."""
        assert self.peer.ask(THEIRS), 'no answer of the resolver'
        for _ in range(20):
            at = len(self.peer.log)
            self.peer.run(lambda: False, 0.3)
            if len(self.peer.log) == at:
                return

    def expect(self, beginning):
        """Waits for a line of the program, takes it, and returns what follows its beginning."""
        found = lambda: [line for line in self.lines if line.startswith(beginning)]
        self.wait(found, f'no "{beginning}"')
        line = found()[0]
        self.lines.remove(line)
        return line[len(beginning):].strip()

    def order(self, line):
        self.process.stdin.write(line.encode() + b'\n')
        self.process.stdin.flush()
        return int(self.expect('done ' + line.split()[0]))

    def is_refused(self, name):
        """The ID is taken: its holder has 60 ms to object, which it may miss on a busy machine, but not each time."""
        return any(self.order(f'open {name}') == -98 for _ in range(5))

    def long(self, size, n_items=1, lend=0, ordered=0, cookie=1, ms=40000):
        assert self.order(f'long interop.peer {size} {n_items} {lend} {ordered} {cookie} {ms}') == 0

    def completion(self, cookie=1):
        outcome, status = self.expect(f'completion {cookie} ').split()
        return int(outcome), int(status)

    def message(self, kind, size, n_items=1):
        """Takes the next message that came, which must be this one."""
        self.wait(lambda: self.peer.came, f'no {kind}')
        got = self.peer.came.pop(0)
        assert (got.kind, got.data, got.lengths) == (kind, BYTES[:size], [len(x) for x in cut(size, n_items)])
        return got

    def came(self, kind, size, n_items=1, where='own'):
        """The program has got this message."""
        got = self.expect(f'{kind} {OURS:016x}')
        assert got == f'{n_items} {size} right {where}', got

    def outcome(self, send):
        self.wait(lambda: send.status is not None, f'no outcome of {send.number}')
        return send.status

    def stranger(self, wants, type=w.SHORT, dst=None, token=0, number=1, to=THEIRS, greets=True, **more):
        """
        Required reactions to a packet of an unknown partner: (type, token, number) of packets, or
        nothing.
        """
        partner, at = self.partner, len(self.peer.log)
        hello = (partner.given, OURS, self.peer.context, to, partner.proof, 65536) if greets else None
        flags = (1 << 8 if type == w.SHORT else 0) | more.pop('bits', 0)
        data = w.write(type, self.peer.incarnation, dst or partner.incarnation, token, number, hello=hello,
                       flags=flags, payload=bytes(20) if type == w.SHORT else b'', **more)
        self.peer.udp.sendto(data, ('::ffff:' + partner.where[0], partner.where[1]))
        self.peer.run(lambda: self.peer.said(at), 20 if wants else 0.3)
        got = [(p.type, p.token, p.number) for p in self.peer.said(at)]
        assert got == wants, got

    def close(self):
        self.process.kill()
        self.process.wait()
        assert not self.peer.malformed, f'malformed by the text: {self.peer.malformed[:3]}'
        self.peer.close()


# ---- the resolver ----------------------------------------------------------------------------


def registration(test):
    """Asked for three times, then announced twice; all to the group."""
    test.expect('ready 0')
    test.wait(lambda: len(test.peer.heard) >= 5, 'no second notice')
    assert [(p.type, p.id) for p in test.peer.heard] == [(w.QUERY, THEIRS)] * 3 + [(w.RECORD, THEIRS)] * 2
    assert all(p.asker and not p.proof for p in test.peer.heard)


def queries(test):
    for to in (None, (THERE, peers.PORT)):
        for id in (THEIRS, 0):
            record, = test.peer.ask(id, to)
            assert (record.type, record.id, record.where) == (w.RECORD, THEIRS, (THERE, peers.PORT))
            assert record.proof and record.context and record.identity
    nobody, = test.peer.ask(4711, (THERE, peers.PORT))
    assert (nobody.type, nobody.third) == (w.NOBODY, 1)
    relayed = bytes(10) + b'\xff\xff' + bytes([10, 77, 0, 9])
    assert not test.peer.ask(4711, (THERE, peers.PORT), third=1, host=relayed, seconds=0.4)
    assert test.order('resolve interop.nobody') == -2
    assert test.order('resolve interop.peer') == 0
    assert test.is_refused('interop.peer')


def digest(test):
    """
    A datagram with their ID makes them ask for other owners. Theirs comes within a minute, which is
    too long here.
    """
    peer, at = test.peer, len(test.peer.heard)
    named = w.Bag(type=w.DIGEST, nonce=0, asker=peer.context, proof=0, third=2, host=bytes(16),
                  named=[(4711, 1), (THEIRS, 2)])
    peer.asking.sendto(w.encode_resolver(named), (peers.GROUP, peers.PORT))
    test.wait(lambda: [p for p in peer.heard[at:] if (p.type, p.id) == (w.QUERY, THEIRS)], 'no query')


# ---- strangers -------------------------------------------------------------------------------


def strangers(test):
    """The answers by cause, in the order of the checks."""
    peer = test.peer
    partner = test.partner = peer.meet(peer.ask(THEIRS)[0])
    given, unknown = partner.given, 0x1234500000000
    test.stranger([(w.RETRY, 0, 0)], greets=False)
    test.stranger([], w.HELLO_ONLY, number=0, greets=False)
    test.stranger([(w.RETRY, 0, unknown)], token=unknown, greets=False)
    test.stranger([(w.RETRY, given, unknown)], token=unknown)
    test.stranger([(w.GONE, given, 0)], dst=partner.incarnation ^ 1)
    assert 0 < peer.log[-1].value < 60e6
    test.stranger([], to=THEIRS ^ 1)
    test.stranger([], number=0)
    test.stranger([(w.ABORT, 0, given)], version=3)
    assert peer.log[-1].value == 1 << 2 and peer.log[-1].src == partner.incarnation
    test.stranger([(w.ABORT, 9, given)], w.HELLO_ONLY, number=0, token=9, bits=0x200)
    test.stranger([], greets=False, bits=w.LAST)


def contact(test):
    """Without a proof RETRY with one; with it state, and HELLO_ONLY."""
    peer, partner = test.peer, test.partner
    proof, partner.proof = partner.proof, 0
    peer.short(partner, cut(9))
    test.wait(lambda: peer.saw(w.RETRY)[-1].dst == peer.incarnation and partner.proof, 'no RETRY')
    assert partner.proof == proof or peer.saw(w.RETRY)[-1].token == partner.given
    peer.short(partner, cut(9), num=1)
    test.wait(lambda: peer.saw(w.HELLO_ONLY, token=partner.given), 'no HELLO_ONLY')
    test.came('short', 9)


# ---- short and long messages -----------------------------------------------------------------


def shorts_there(test):
    for size, n in ((0, 1), (100, 1), (300, 3), (64, 64), (1200, 2)):
        test.peer.short(test.partner, cut(size, n))
        test.came('short', size, n)
    test.peer.short(test.partner, cut(100), num=test.partner.shorts)  # a duplicate
    test.peer.short(test.partner, cut(7))
    test.came('short', 7)
    assert not test.lines, 'a duplicate was delivered'


def shorts_back(test):
    for size, n in ((0, 1), (100, 1), (300, 3), (64, 64)):
        assert test.order(f'short interop.peer {size} {n}') == 0
        test.message('short', size, n)


def longs_there(test):
    peer, partner = test.peer, test.partner
    for size, n in ((0, 1), (500, 1), (600, 64), (200000, 3), (BIG, 1)):
        send = peer.long(partner, cut(size, n))
        assert test.outcome(send) == 0
        test.came('long', size, n)
    for again in ('the answer again', ''):
        test.pause()  # an answer to what was repeated may be late
        answers = len(peer.saw(w.ANSWER))
        partner.unresolved = {send.number if again else send.number + 1}
        peer.announce(partner, send)
        if again:
            test.wait(lambda: len(peer.saw(w.ANSWER)) > answers, again)
        else:  # below oldest
            test.pause()
            assert len(peer.saw(w.ANSWER)) == answers
    partner.unresolved.clear()
    assert not test.lines, 'delivered twice'


def checksums(test):
    """A wrong datagram is refused, and the rest of its packet is ignored."""
    assert test.outcome(test.peer.long(test.partner, cut(200000), sum_right=False)) == w.EBADMSG
    assert test.outcome(test.peer.long(test.partner, cut(800), sum_right=False)) == 0
    test.came('long', 800)


def longs_back(test):
    for size, n in ((0, 1), (500, 1), (600, 64), (BIG, 64)):
        test.long(size, n)
        test.message('long', size, n)
        assert test.completion() == (DELIVERED, 0)


def gaps_back(test):
    """Every ninth received packet is lost."""
    count = [0]

    def lose(_):
        count[0] += 1
        return count[0] % 9 == 0
    test.peer.lose = lose
    test.long(BIG, 5)
    got = test.message('long', BIG, 5)
    assert test.completion() == (DELIVERED, 0) and got.holes
    test.peer.lose = None


def gaps_there(test):
    """Every ninth DATA is not sent at first."""
    peer, count, whole = test.peer, [0], test.peer.send

    def send(partner, type, *args, **more):
        count[0] += type == w.DATA
        return b'' if type == w.DATA and count[0] % 9 == 0 else whole(partner, type, *args, **more)
    peer.send = send
    at = len(peer.log)
    assert test.outcome(peer.long(test.partner, cut(BIG))) == 0
    peer.send = whole
    test.came('long', BIG)
    assert any(p.holes for p in peer.saw(w.PULL, at))


def refused_back(test):
    for status in (w.EMSGSIZE, w.ENOBUFS, w.ECANCELED, w.EBADMSG):
        test.peer.refuse = status
        test.long(100000)
        assert test.completion() == (NOT_DELIVERED, -status)
    test.peer.refuse = 0


def busy_back(test):
    """Kept, and asked again; if there is no room to the end, that is told."""
    for busy, wants in ((1, (DELIVERED, 0)), (2, (DELIVERED, 0)), (2, (NOT_DELIVERED, -w.ENOBUFS))):
        at, test.peer.busy = len(test.peer.log), busy
        test.long(500, ms=40000 if wants[0] == DELIVERED else 3000)
        test.wait(lambda: len(test.peer.saw(w.ANNOUNCE, at)) >= 3, 'not asked again')
        test.peer.busy = busy if wants[0] == NOT_DELIVERED else 0
        assert test.completion() == wants
        test.peer.busy = 0
        if wants[0] == DELIVERED:
            test.message('long', 500)


def lends_back(test):
    """The program lends a return buffer; the answer names it and lands there."""
    for size in (300, BIG):
        test.long(size, lend=1)
        lends = test.message('long', size).lends
        assert lends is not None and test.completion() == (DELIVERED, 0)
        assert test.outcome(test.peer.long(test.partner, cut(size), replies=lends)) == 0
        test.came('long', size, where='lent')


def lends_there(test):
    """The peer lends; the program's answer gives the ID back."""
    test.peer.short(test.partner, cut(90), lends=77)
    assert test.message('long', 90).replies == 77
    assert test.outcome(test.peer.long(test.partner, cut(50000), lends=78)) == 0
    assert test.message('long', 50000).replies == 78
    for kind, size in (('short', 90), ('long', 50000)):
        test.expect('answered 0')
        test.came(kind, size)


def calls_back(test):
    """The program makes requests, short and long ones; the peer replies, with numbers of the replies' row."""
    for cookie, size in enumerate((1, 300, BIG)):
        assert test.order(f'call interop.peer {size} {cookie} 40000') == 0
        request = test.message('long', size)
        assert request.call[0] == 1 and request.number < w.REPLIES_FROM
        reply = test.peer.long(test.partner, cut(size), replies=request.lends, call=(2, 0))
        assert reply.number > w.REPLIES_FROM and test.outcome(reply) == 0
        assert test.expect(f'reply {cookie} ') == f'0 {size} right'
        late = test.peer.long(test.partner, cut(size), replies=request.lends, call=(2, 0))
        assert test.outcome(late) == w.ECANCELED
    assert test.order('call interop.peer 1 9 40000') == 0
    lends = test.message('long', 1).lends
    assert test.outcome(test.peer.long(test.partner, [b''], replies=lends, call=(3, 33))) == 0
    assert test.expect('reply 9 ').startswith('-33 ')


def calls_there(test):
    """The peer makes requests; the program replies, with numbers of the replies' row."""
    for size in (1, 300, BIG):
        request = test.peer.long(test.partner, cut(size), lends=4000 + size, call=(1, 0))
        assert test.outcome(request) == 0
        test.came('request', size)
        test.expect('answered 0')
        reply = test.message('long', size)
        assert reply.number > w.REPLIES_FROM and reply.replies == 4000 + size and reply.call == (2, 0)


def ordered_there(test):
    """A message announced before its turn waits, and is answered with PULL."""
    peer, partner = test.peer, test.partner
    whole, peer.send = peer.send, lambda *args, **more: b''
    first = peer.long(partner, cut(1000), order=True)
    peer.send, at, first.at = whole, len(peer.log), time.monotonic() + 60
    others = [peer.long(partner, cut(size), order=True) for size in (2000, 700)]
    test.wait(lambda: all(peer.saw(w.PULL, at, number=out.number) for out in others), 'no PULL')
    test.pause()
    assert not test.lines and not any(out.status is not None for out in others)
    first.at = 0
    assert [test.outcome(out) for out in (first, *others)] == [0, 0, 0]
    for size in (1000, 2000, 700):
        test.came('long', size)


def ordered_back(test):
    for i in range(4):
        test.long(10 + 40000 * i, ordered=1, cookie=20 + i)
    before = 0
    for i in range(4):
        got = test.message('long', 10 + 40000 * i)
        assert got.previous in (0, before) and (i or not got.previous)
        assert test.completion(20 + i) == (DELIVERED, 0)
        before = got.number


def cancels_there(test):
    """An incomplete one, one that is delivered, and one that was never announced."""
    peer, partner = test.peer, test.partner
    send = peer.long(partner, cut(100000), first=0)
    peer.cancel(partner, send)
    assert test.outcome(send) == w.ECANCELED
    send = peer.long(partner, cut(1000))
    assert test.outcome(send) == 0
    test.came('long', 1000)
    partner.unresolved, send.status = {send.number}, None
    peer.cancel(partner, send)
    assert test.outcome(send) == 0
    whole, peer.send = peer.send, lambda *args, **more: b''
    send = peer.long(partner, cut(10))
    peer.send = whole
    for word in (peer.cancel, peer.announce):
        partner.unresolved, send.status = {send.number}, None
        word(partner, send)
        assert test.outcome(send) == w.ECANCELED
    partner.unresolved.clear()
    assert not test.lines


def cancel_back(test):
    test.peer.busy = 1
    test.long(100000)
    assert test.order('cancel 1') == 0
    assert test.completion() == (NOT_DELIVERED, -w.ECANCELED)
    test.peer.busy = 0


def silence_back(test):
    """Wholly sent and nothing said: asked by CANCEL, then unknown."""
    at, test.peer.deaf = len(test.peer.log), True
    test.long(100, ms=3000)
    assert test.completion()[0] == UNKNOWN
    cancel = test.peer.saw(w.CANCEL, at)[-1]
    test.peer.deaf = False
    # The receiver still asks for bytes: it is told once more.
    at = len(test.peer.log)
    test.peer.pull_packet(test.partner, cancel.number, 0, 100, [], 0)
    test.wait(lambda: test.peer.saw(w.CANCEL, at, number=cancel.number), 'no CANCEL')


# ---- who lives, and where --------------------------------------------------------------------


def echoes(test):
    test.peer.send(test.partner, w.ECHO, 0, struct.pack('<QQ', 4711, 42))
    test.wait(lambda: test.peer.saw(w.ECHO_REPLY, nonce=4711, stamp=42), 'no ECHO_REPLY')
    assert test.order('ping interop.peer') == 0


def versions(test):
    """ABORT to a first packet is believed with the token that it gives, and without the version."""
    peer = test.peer

    def abort(value):
        def lose(p):
            if p.type != w.ANNOUNCE or not p.hello or p.dst != peer.incarnation:
                return False
            peer.udp.sendto(w.write(w.ABORT, p.dst, p.src, p.token, p.hello.token, struct.pack('<Q', value)), p.where)
            aborted.append(value)
            peer.lose = None if value & 1 << 2 else lose
            return True
        return lose
    aborted = []
    for value, wants in ((1 << 7, (NOT_DELIVERED, -93)), (1 << 2, (DELIVERED, 0))):
        peer.renew()
        test.pause()
        peer.lose = abort(value)
        test.long(500)
        assert test.completion() == wants and value in aborted
        peer.lose = None
    test.message('long', 500)
    test.partner = peer.partners[test.partner.incarnation]


def moves(test):
    """From another address, even of IPv6, an ECHO proves it; then everything goes there."""
    peer, partner = test.peer, test.partner
    partner.where, at = (THERE6, partner.where[1]), len(peer.log)
    peer.short(partner, cut(9))
    test.pause()
    assert not peer.saw(w.ECHO, at), 'an ECHO for less than its length'
    peer.short(partner, cut(9))
    test.wait(lambda: peer.saw(w.ECHO, at), 'no ECHO')
    test.pause()
    assert all(p.where[0] == THERE6 for p in peer.saw(w.ECHO, at))
    at = len(peer.log)
    test.long(100000)
    test.message('long', 100000)
    assert test.completion() == (DELIVERED, 0)
    assert {p.where[0] for p in peer.log[at:]} == {THERE6}
    for _ in range(2):
        test.came('short', 9)


def forgotten(test):
    """The program's token is not known any more: RETRY, and it says hello again."""
    at = len(test.peer.log)
    test.peer.partners.clear()
    test.long(500)
    test.message('long', 500)
    assert test.completion() == (DELIVERED, 0)
    assert test.peer.saw(w.ANNOUNCE, at)[0].hello is None and test.peer.saw(w.ANNOUNCE, at)[-1].hello


def successor(test):
    """GONE of the old incarnation; the next holder gets the message."""
    test.peer.renew()
    heard = len(test.peer.heard)
    test.pause()
    test.long(500)
    test.message('long', 500)
    assert test.completion() == (DELIVERED, 0)
    assert any(p.type == w.QUERY for p in test.peer.heard[heard:])


def six(test):
    """A first contact over IPv6: the proof for the IPv4 address does not hold there."""
    peer = test.peer
    peer.renew()
    test.partner = partner = peer.meet(peer.ask(THEIRS)[0])
    partner.where, at = (THERE6, partner.where[1]), len(peer.log)
    peer.short(partner, cut(7))
    test.wait(lambda: peer.saw(w.RETRY, at, token=partner.given), 'no RETRY')
    peer.short(partner, cut(7), num=1)
    test.came('short', 7)


def six_finds(test):
    """Queries over IPv6: to the group and to a host, and none from a link-local address."""
    peer = test.peer
    peer.listen_six(HERE6, 'here')
    for to in ((peers.GROUP6, peers.PORT), (THERE6, peers.PORT)):
        answer = peer.ask(THEIRS, to=to, sock=peer.asking6)
        assert answer and answer[0].where[:2] == (THERE6, peers.PORT), answer
    link = subprocess.run(['ip', '-6', 'address', 'show', 'dev', 'here', 'scope', 'link'], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.split('inet6 ')[1].split('/')[0]
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        index = socket.if_nametoindex('here')
        sock.bind((link, 0, 0, index))
        peer.files[sock] = lambda: peer.on_resolver(*sock.recvfrom(65536))
        answer = peer.ask(THEIRS, to=(peers.GROUP6, peers.PORT, 0, index), sock=sock, seconds=0.3)
        del peer.files[sock]
        assert not answer, answer


def six_is_found(test):
    """A holder that answers over IPv6 alone: the first query goes out over IPv4, the next ones over both."""
    peer = test.peer
    peer.renew()
    peer.answers_over = (6,)
    test.pause()
    heard, at = len(peer.heard), len(peer.log)
    test.long(500)
    test.message('long', 500)
    assert test.completion() == (DELIVERED, 0)
    asked = [':' in p.where[0] for p in peer.heard[heard:] if p.type == w.QUERY and p.id == OURS]
    assert asked and not asked[0] and any(asked), asked
    assert all(p.where[0] == THERE6 for p in peer.saw(w.ANNOUNCE, at) if p.src == test.partner.incarnation), 'not from there'
    peer.answers_over = (4, 6)
    peer.close_six()
    peer.renew()
    test.pause()  # otherwise the next message may go to the incarnation that has ended


def goodbye_there(test):
    """GONE with both tokens is believed, with a wrong one it is not."""
    peer = test.peer
    test.long(100)
    test.message('long', 100)
    assert test.completion() == (DELIVERED, 0)
    partner, peer.answers_queries = peer.partners[test.partner.incarnation], False
    for wrong in (1, 0):
        peer.send_word(partner, w.GONE, partner.given ^ wrong)
        peer.group.sendto(peer.notice_of_end(), (peers.GROUP, peers.PORT))
        test.pause()
        test.long(100)
        assert test.completion() == ((DELIVERED, 0) if wrong else (NOT_DELIVERED, -2))
    test.message('long', 100)


def goodbye_back(test):
    """The program says GONE with both tokens, and withdraws its IDs."""
    peer = test.peer
    peer.renew()
    partner = peer.meet(peer.ask(THEIRS)[0])
    for size in (8, 9):  # the second one gives the token back
        peer.short(partner, cut(size))
        test.came('short', size)
        test.wait(lambda: partner.token, 'no HELLO_ONLY')
    at, heard = len(peer.log), len(peer.heard)
    test.process.stdin.close()
    test.expect('closed 0')
    test.wait(lambda: peer.saw(w.GONE, at, token=partner.given, number=partner.token, value=0), 'no GONE')
    test.wait(lambda: [p for p in peer.heard[heard:] if p.type == w.WITHDRAWN and p.id == THEIRS
                       and p.incarnation == partner.incarnation], 'no WITHDRAWN')


def local(test):
    """On one host, without multicast: names, who answers, the host's identity, the address."""
    peer = test.peer
    test.expect('ready 0')
    record = peer.ask_local(THEIRS)
    assert record.identity == peer.identity and record.proof
    test.partner = peer.meet(record, peers.reached('127.0.0.1', record))
    peer.short(test.partner, cut(9))
    test.came('short', 9)
    test.long(5000)
    test.message('long', 5000)
    assert test.completion() == (DELIVERED, 0)
    assert test.order('resolve interop.nobody') == -2
    assert test.is_refused('interop.peer')


TWO_HOSTS = (registration, queries, digest, strangers, contact, shorts_there, longs_there, checksums, gaps_there,
             lends_there, calls_there, ordered_there, cancels_there, shorts_back, longs_back, gaps_back, refused_back,
             busy_back, lends_back, calls_back, ordered_back, cancel_back, silence_back, *many.STEPS, echoes, moves,
             forgotten, successor, versions, six, six_finds, six_is_found, goodbye_there, goodbye_back)


def run(test, steps):
    for step in steps:
        began = time.monotonic()
        step(test)
        print(f'{step.__name__}: passed in {time.monotonic() - began:.2f} s', flush=True)
    counts = {}
    for packet in test.peer.log + test.peer.heard:
        counts[packet.type] = counts.get(packet.type, 0) + 1
    print('received:', ', '.join(f'{n} {w.NAMES[type]}' for type, n in sorted(counts.items())))
    test.close()
    return set(counts)


def main():
    if '--inside' not in sys.argv:
        if os.geteuid() != 0:
            print('skipped: network namespaces need root')
            sys.exit(SKIP)
        sys.exit(subprocess.run(['unshare', '-n', sys.executable, *sys.argv, '--inside'], check=False).returncode)
    must('ip', 'link', 'set', 'lo', 'up')
    host = Host()
    try:
        types = run(Test(sys.argv[1], host.enter(), RIPC_OPTIONS='group.many=1'), TWO_HOSTS)
    finally:
        host.close()
    never = set(w.NAMES) - {w.DIGEST} - types
    assert not never, f'never received: {never}'
    test = Test(sys.argv[1], address='127.0.0.1')
    test.peer.listen_local()
    run(test, (local,))


if __name__ == '__main__':
    main()
