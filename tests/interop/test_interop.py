# SPDX-License-Identifier: BSD-3-Clause
"""peer.py and libripc exchange every kind of message, in a network namespace of their own.

usage: test_interop.py interop-partner
"""
import errno
import os
import queue
import subprocess
import sys
import threading
import time

import peer as peers
import protocol as p

SKIP = 77
OURS, THEIRS = 'interop.peer', 'interop.partner'
BIG = 1 << 20
BLOCK = bytes((i * i >> 3) & 255 for i in range(65521))


def pattern(size, n_items=1):
    """The bytes of every message, as partner.c makes them, cut into items."""
    data = (BLOCK * (size // len(BLOCK) + 1))[:size]
    edges = [size * i // n_items for i in range(n_items + 1)]
    return [data[a:b] for a, b in zip(edges, edges[1:])]


class Program:
    """partner.c: its lines come by a thread, so that the peer goes on meanwhile."""

    def __init__(self, *command, **variables):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, RIPC_BACKENDS='udp', **variables))
        self.queue, self.lines = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.queue.put(line.strip())

    def say(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def has(self, *beginning):
        """Whether a line that begins so has come; takes it."""
        while not self.queue.empty():
            self.lines.append(self.queue.get())
        for line in self.lines:
            if line.startswith(' '.join(beginning)):
                self.lines.remove(line)
                return line
        return None


class Test:
    """One peer and one program of libripc."""

    def __init__(self, program):
        self.peer = peers.Peer(OURS)
        self.peer.register()
        self.peer.listen_network('127.0.0.2')
        self.program = Program(program, THEIRS, RIPC_PEERS='127.0.0.1,127.0.0.2')
        self.expect('ready 0')
        self.partner = None

    def expect(self, *beginning):
        """Waits for a line of the program, and returns what follows its beginning."""
        found = []
        self.peer.run(lambda: found.append(self.program.has(*beginning)) or found[-1],
                      f'"{" ".join(beginning)}" (got {self.program.lines})')
        return found[-1]

    def order(self, line):
        """Lets the program do something; returns its result."""
        self.program.say(line)
        return int(self.expect('done', line.split()[0]).split()[-1])

    def message(self, kind, items):
        """Waits for a message of the program with these items."""
        self.peer.run(lambda: self.peer.messages, f'a {kind}')
        message = self.peer.messages.pop(0)
        assert message.kind == kind, f'{message.kind} instead of {kind}'
        assert message.items == items, 'the bytes of a message'
        return message

    def outcome(self, send):
        self.peer.run(lambda: send.outcome is not None, f'an outcome of {send.number}')
        return send.outcome


def contact(test):
    """The program is found by the local source; a first packet without a proof is answered RETRY."""
    test.partner = test.peer.find(p.id_of_name(THEIRS))
    partner, proof = test.partner, test.partner.proof
    partner.proof = 0
    test.peer.send_short(partner, pattern(10))
    test.peer.run(lambda: partner.proof, 'RETRY')
    assert partner.proof and not partner.known and test.peer.counts['RETRY'] == 1
    partner.proof = proof  # that of the answer holds as well
    test.peer.send_short(partner, pattern(10))
    test.peer.run(lambda: partner.known, 'what answers a hello')
    assert test.peer.counts['HELLO_ONLY'] >= 1
    test.expect('short', '%016x 1 10 right' % test.peer.id)


def shorts_there(test):
    for size, n in ((0, 1), (100, 1), (300, 3), (64, 64), (1200, 2)):
        number = test.peer.send_short(test.partner, pattern(size, n))
        test.expect('short', f'{test.peer.id:016x} {n} {size} right')
    test.peer.send_short(test.partner, pattern(100), number=number)  # a duplicate
    test.peer.send_short(test.partner, pattern(7))
    test.expect('short', f'{test.peer.id:016x} 1 7 right')
    assert not test.program.has('short'), 'a duplicate was delivered'


def shorts_back(test):
    for size, n in ((0, 1), (100, 1), (300, 3), (64, 64)):
        assert test.order(f'short {OURS} {size} {n}') == 0
        test.message('short', pattern(size, n))


def longs_there(test):
    for size, n in ((0, 1), (500, 1), (600, 64), (BIG, 3)):
        send = test.peer.begin_long(test.partner, pattern(size, n))
        assert test.outcome(send) == 0
        test.expect('long', f'{test.peer.id:016x} {n} {size} right')
    test.peer.announce(test.partner, send)  # once more: the answer again, no second delivery
    answers = test.peer.counts['ANSWER']
    test.peer.run(lambda: test.peer.counts['ANSWER'] > answers, 'the answer again')
    assert not test.program.has('long'), 'delivered twice'
    assert test.peer.counts['PULL'] > 0


def gaps_there(test):
    send = test.peer.begin_long(test.partner, pattern(BIG))
    send.skip = {1200 + peers.PIECE * i for i in range(64)} | {peers.PIECE * i for i in range(64)}
    assert test.outcome(send) == 0
    test.expect('long', f'{test.peer.id:016x} 1 {BIG} right')


def no_checksum(test):
    """Not needed of what came in one packet; the rest is refused without it."""
    send = test.peer.send
    test.peer.send = lambda *args, **fields: send(*args, **dict(
        fields, **({'last': False, 'sum': 0} if 'last' in fields else {})))
    assert test.outcome(test.peer.begin_long(test.partner, pattern(50))) == 0
    test.expect('long', f'{test.peer.id:016x} 1 50 right')
    assert test.outcome(test.peer.begin_long(test.partner, pattern(50000))) == errno.EBADMSG
    test.peer.send = send
    assert not test.program.has('long')


def completion(test, cookie):
    outcome, status = test.expect('completion', str(cookie)).split()[2:]
    return int(outcome), int(status)


def longs_back(test):
    for cookie, (size, n) in enumerate(((0, 1), (500, 1), (600, 64), (BIG, 3)), 10):
        assert test.order(f'long {OURS} {size} {n} 0 0 {cookie}') == 0
        test.message('long', pattern(size, n))
        assert completion(test, cookie) == (2, 0)


def gaps_back(test):
    """Every third DATA is lost once."""
    lost, data = set(), [0]

    def lose(packet, partner):
        if packet.type != p.DATA or packet.offset in lost:
            return False
        data[0] += 1
        if data[0] % 3 == 0:
            lost.add(packet.offset)
        return data[0] % 3 == 0
    test.peer.tamper = lose
    assert test.order(f'long {OURS} {BIG} 1 0 0 20') == 0
    test.message('long', pattern(BIG))
    test.peer.tamper = lambda packet, partner: False
    assert completion(test, 20) == (2, 0) and lost


def busy(test):
    """A message that is answered busy is kept, and asked for again."""
    refused = []

    def refuse(packet, partner):
        if packet.type == p.ANNOUNCE and len(refused) < 2:
            refused.append(packet.number)
            test.peer.send(partner, p.PULL, packet.number, have=0, limit=0, busy=1 + len(refused) % 2,
                           stamp=peers.now_us())
            return True
        return False
    test.peer.tamper = refuse
    assert test.order(f'long {OURS} 500 1 0 0 30') == 0
    test.message('long', pattern(500))
    test.peer.tamper = lambda packet, partner: False
    assert completion(test, 30) == (2, 0) and len(refused) == 2


def lends_back(test):
    """The program lends a return buffer; the answer names it and lands there."""
    for cookie, size in ((40, 300), (41, BIG)):
        assert test.order(f'long {OURS} {size} 1 1 0 {cookie}') == 0
        message = test.message('long', pattern(size))
        assert message.lends is not None
        assert completion(test, cookie) == (2, 0)
        send = test.peer.begin_long(test.partner, pattern(size), replies=message.lends)
        assert test.outcome(send) == 0
        test.expect('long', f'{test.peer.id:016x} 1 {size} right lent')


def lends_there(test):
    """The peer lends; the program's answer gives the ID back."""
    for lends, kind in ((77, 'short'), (78, 'long')):
        if kind == 'short':
            test.peer.send_short(test.partner, pattern(90), lends=lends)
        else:
            assert test.outcome(test.peer.begin_long(test.partner, pattern(90), lends=lends)) == 0
        assert test.message('long', pattern(90)).replies == lends
        test.expect('answered 0')
        test.expect(kind, f'{test.peer.id:016x} 1 90 right')


def ordered(test):
    """A message whose previous one has not come is kept until that one has."""
    quiet = test.peer.send
    held = []
    test.peer.send = lambda *args, **fields: held.append((args, fields))
    first = test.peer.begin_long(test.partner, pattern(101), previous=0)
    test.peer.send = quiet
    first.quiet = True
    second = test.peer.begin_long(test.partner, pattern(102), previous=first.number)
    pulls = test.peer.counts.get('PULL', 0)
    test.peer.run(lambda: test.peer.counts.get('PULL', 0) > pulls, 'PULL of one that waits')
    assert second.outcome is None and not test.program.has('long')
    first.quiet = False
    assert test.outcome(first) == 0 and test.outcome(second) == 0
    lines = [test.expect('long').split()[3] for _ in range(2)]
    assert lines == ['101', '102'], lines


def ordered_back(test):
    for i in range(4):
        assert test.order(f'long {OURS} {200 + i} 1 0 1 {50 + i}') == 0
    messages = [test.message('long', pattern(200 + i)) for i in range(4)]
    for i in range(4):
        assert completion(test, 50 + i) == (2, 0)
    for before, message in zip(messages, messages[1:]):
        assert message.previous in (0, before.number)
    assert messages[0].previous == 0


def cancel_there(test):
    """Cancelled before its bytes came: refused, and the refusal is remembered."""
    send = test.peer.begin_long(test.partner, pattern(BIG))
    send.quiet, send.data = True, b''  # no bytes for its PULL
    test.peer.cancel(test.partner, send)
    assert test.outcome(send) == peers.ECANCELED
    number = test.partner.next_long  # one that was never announced
    test.partner.next_long += 1
    send = peers.Send(number=number, outcome=None, again=0, data=pattern(10)[0], quiet=True, skip=set(),
                      lengths=[10], previous=None, fields={})
    test.partner.sends[number] = send
    test.peer.cancel(test.partner, send)
    assert test.outcome(send) == peers.ECANCELED
    send.outcome = None
    test.peer.announce(test.partner, send)
    assert test.outcome(send) == peers.ECANCELED, 'the refusal was forgotten'
    assert not test.program.has('long')


def cancel_back(test):
    def silent(packet, partner):
        return packet.type in (p.ANNOUNCE, p.DATA)
    test.peer.tamper = silent
    assert test.order(f'long {OURS} {BIG} 1 0 0 60') == 0
    assert test.order('cancel 60') == 0
    assert completion(test, 60) == (1, -125)
    test.peer.tamper = lambda packet, partner: False


def echoes(test):
    assert test.order(f'ping {OURS}') == 0
    test.peer.send(test.partner, p.ECHO, nonce=4711, stamp=peers.now_us())
    test.peer.run(lambda: 4711 in test.peer.pongs, 'ECHO_REPLY')


def refusals(test):
    """What is of another version, has an unknown flag, is malformed, or for somebody else."""
    peer, partner = test.peer, test.partner
    good = bytearray(p.encode(p.Packet(type=p.ECHO, src=peer.incarnation, dst=partner.incarnation,
                                       token=partner.token_out, nonce=1, stamp=0)))
    for at, value in ((0, 3), (2, 0x80)):
        packet = bytearray(good)
        packet[at] = value
        packet[4:8] = bytes(4)
        packet[4:8] = p.crc32c(packet).to_bytes(4, 'little')
        peer.socket.sendto(packet, partner.address)
    peer.run(lambda: len(peer.aborts) == 2, 'ABORT for a version and for a flag')
    assert all(packet.versions >> p.VERSION & 1 for packet in peer.aborts)
    stranger = peers.Partner(incarnation=4712, context=partner.context, id=partner.id,
                             address=partner.address)
    peer.partners['stranger'] = peer.by_token[stranger.token_in] = stranger
    peer.send_short(stranger, pattern(10))
    peer.run(lambda: stranger.gone, 'GONE')
    del peer.partners['stranger']


def forgotten(test):
    """The program's token is not known any more: RETRY, and it says hello again."""
    peer, partner = test.peer, test.partner
    del peer.by_token[partner.token_in]
    partner.token_in, partner.known = peers.draw(), False
    peer.by_token[partner.token_in] = partner
    hellos = peer.counts['HELLO_ONLY']
    assert test.order(f'short {OURS} 33 1') == 0
    peer.run(lambda: peer.counts['HELLO_ONLY'] > hellos, 'hello once more')
    assert test.order(f'long {OURS} 500 1 0 0 70') == 0
    test.message('long', pattern(500))
    assert completion(test, 70) == (2, 0) and partner.known


def questions(test):
    """By unicast to the resolver's port: a RECORD, or NOBODY; and by local names."""
    peer = test.peer
    record = peer.ask_network(p.id_of_name(THEIRS), '127.0.0.1')
    assert record.type == p.RECORD and record.incarnation == test.partner.incarnation
    nobody = peer.ask_network(p.id_of_name('interop.nobody'), '127.0.0.1')
    assert nobody.type == p.NOBODY and nobody.extra == 1, 'NOBODY, definite'
    assert peer.ask_local(p.id_of_name('interop.nobody'))[1] == 0
    assert test.order('resolve interop.nobody') == -2
    assert peer.counts['QUESTION'] > 0
    assert test.order(f'resolve {OURS}') == 0
    assert test.order(f'open {OURS}') == -98, 'the ID is taken'


def goodbye_there(test):
    """The peer closes: GONE with both tokens ends what the program sends."""
    test.peer.tamper = lambda packet, partner: packet.type in (p.ANNOUNCE, p.DATA, p.CANCEL)
    assert test.order(f'long {OURS} {BIG} 1 0 0 80') == 0
    partner = test.partner
    packet = p.Packet(type=p.GONE, src=test.peer.incarnation, dst=partner.incarnation,
                      token=partner.token_out, number=partner.token_in ^ 1, since=0)
    test.peer.socket.sendto(p.encode(packet), partner.address)  # not believed
    assert test.order(f'ping {OURS}') == 0
    packet.number = partner.token_in
    began = time.monotonic()
    test.peer.loop.remove(test.peer.named)
    test.peer.named.close()
    test.peer.id = 0  # nobody any more
    test.peer.socket.sendto(p.encode(packet), partner.address)
    outcome, status = completion(test, 80)
    assert outcome == 1, f'outcome {outcome}, status {status}'
    print(f'goodbye: status {status} after {time.monotonic() - began:.2f} s')


def goodbye_back(test):
    """The program closes, and says GONE to the peer, which has used the program's token."""
    test.peer.send_short(test.partner, pattern(11))
    test.expect('short', f'{test.peer.id:016x} 1 11 right')
    test.program.process.stdin.close()
    test.peer.run(lambda: test.peer.goodbyes and test.partner.gone, 'the program\'s goodbye')
    last = test.peer.goodbyes[-1]
    assert last.number == test.partner.token_out and last.since == 0
    test.expect('closed 0')


STEPS = (contact, shorts_there, shorts_back, longs_there, gaps_there, no_checksum, longs_back, gaps_back, busy,
         lends_back, lends_there, ordered, ordered_back, cancel_there, cancel_back, echoes, refusals,
         forgotten, questions, goodbye_there)


def run(program, steps):
    test = Test(program)
    for step in steps:
        began = time.monotonic()
        try:
            step(test)
        except (AssertionError, peers.Timeout) as why:
            print(f'{step.__name__}: {why!r}; lines {test.program.lines}; counts {test.peer.counts}')
            raise
        print(f'{step.__name__}: passed in {time.monotonic() - began:.2f} s', flush=True)
    assert not test.peer.bad, f'malformed by the text: {test.peer.bad[:3]}'
    test.program.process.kill()
    test.program.process.wait()
    test.peer.close()
    print('received:', ', '.join(f'{n} {name}' for name, n in sorted(test.peer.counts.items())))


def main():
    if '--inside' not in sys.argv:
        if os.geteuid() != 0:
            print('skipped: network namespaces need root')
            sys.exit(SKIP)
        done = subprocess.run(['unshare', '-n', sys.executable, *sys.argv, '--inside'], check=False)
        sys.exit(done.returncode)
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    run(sys.argv[1], STEPS)
    run(sys.argv[1], (contact, goodbye_back))


if __name__ == '__main__':
    main()
