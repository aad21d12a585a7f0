# SPDX-License-Identifier: BSD-3-Clause
"""A peer of libripc over UDP, and its sources of the resolver, by docs/protocol.md.

Parts of input.c, wire.c and the resolver's sources had been read before it was written, to see what the
text left open (what answers a hello, where answers go); the text says that now.

One thread, one service. Peer.run(until) is the loop: it handles what comes until until() is true.
What a test wants to be done badly (a packet lost, a proof refused) it asks for by `tamper`.
"""
import os
import select
import socket
import struct
import time
from types import SimpleNamespace

import protocol as p

UNASKED = 65536
PIECE = 8000           # payload of a DATA packet
GRANT = 131072         # bytes that one PULL lets come
REPEAT = 0.05          # seconds
HOST_LOCAL = bytes(10) + b'\xff\xff' + bytes([127, 0, 0, 1])
PORT = 15511
ECANCELED = 125


class Timeout(Exception):
    """What was waited for did not come."""


def draw():
    return int.from_bytes(os.urandom(8), 'little') or 1


def now_us():
    return int(time.monotonic() * 1e6) % (1 << 32) or 1


class Partner(SimpleNamespace):
    """What is known of one incarnation of another service."""

    def __init__(self, **fields):
        super().__init__(token_in=draw(), token_out=0, known=False, proof=0, unasked=0, gone=False,
                         shorts=set(), next_short=1, next_long=1, sends={}, receives={}, **fields)


class Send(SimpleNamespace):
    """A long message of ours: outcome is None, or the status of the answer."""


class Receive(SimpleNamespace):
    """A long message that comes."""

    def missing(self):
        """Ranges that have not arrived."""
        at, holes = 0, []
        for start, end in sorted(self.ranges):
            if start > at:
                holes.append((at, start))
            at = max(at, end)
        if at < self.total:
            holes.append((at, self.total))
        return holes


class Peer:
    """A context with one service of a given name."""

    def __init__(self, name, address='127.0.0.1'):
        self.id, self.incarnation, self.context = p.id_of_name(name), draw(), draw()
        self.secret = os.urandom(16)
        self.partners, self.by_token = {}, {}
        self.messages, self.pongs, self.answers, self.goodbyes, self.aborts = [], [], {}, [], []
        self.counts, self.bad, self.stamp, self.stamp_came = {}, [], 0, 0.0
        self.tamper = lambda packet, partner: False  # true: not handled
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((address, 0))
        self.asker, self.named = self.unix(b''), None
        self.network = None
        self.loop = [self.socket, self.asker]
        self.stamp_ns = time.time_ns()

    @staticmethod
    def unix(name):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        sock.bind(name)
        return sock

    def close(self):
        for sock in self.loop:
            sock.close()

    # ---- the resolver -----------------------------------------------------------------------

    @staticmethod
    def name_of(number, k):
        return b'\0ripc/%x/%016x/%x' % (os.getuid(), number, k)

    def register(self):
        """Binds the local name, so that this host's questions come here."""
        self.named = self.unix(self.name_of(self.id, 0))
        self.loop.append(self.named)

    def listen_network(self, address):
        """Answers unicast questions of other hosts at an address, as their resolver's port."""
        self.network = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            self.network.setsockopt(socket.SOL_SOCKET, option, 1)
        self.network.bind((address, PORT))
        self.loop.append(self.network)

    def record(self, nonce, asker, host):
        udp = struct.pack('<BBH', 1, 0, self.socket.getsockname()[1])
        return p.Packet(type=p.RECORD, nonce=nonce, proof=self.proof(asker, host), id=self.id,
                        incarnation=self.incarnation, stamp=self.stamp_ns, identity=0,
                        context=self.context, addrs=[(1, udp)])

    def proof(self, asker, host, periods_ago=0):
        period = int(time.monotonic() // 8) - periods_ago
        return p.siphash(struct.pack('<Q16sQ', asker, host, period), self.secret) or 1

    def proof_holds(self, proof, host, *askers):
        return any(proof == self.proof(asker, host, ago) for asker in askers for ago in (0, 1))

    def question(self, number):
        packet = p.Packet(type=p.QUESTION, nonce=draw(), asker=self.context, id=number)
        self.answers[packet.nonce] = []
        return packet

    def ask_local(self, number):
        """Asks all names of an ID on this host; returns the nonce and how many there are."""
        question, there = self.question(number), 0
        for k in range(9):
            try:
                self.asker.sendto(p.encode_resolver(question), self.name_of(number, k))
                there += 1
            except ConnectionRefusedError:
                pass
        return question.nonce, there

    def find(self, number):
        """The partner that has an ID on this host."""
        nonce, there = self.ask_local(number)
        if not there:
            raise Timeout('nobody has bound the name')
        self.run(lambda: self.answers[nonce], 'an answer to a question')
        record = self.answers[nonce][0]
        port = next(struct.unpack('<BBH', blob)[2] for backend, blob in record.addrs if backend == 1)
        partner = self.partner(record.incarnation, record.context, record.id, ('127.0.0.1', port))
        partner.proof = record.proof
        return partner

    def ask_network(self, number, address):
        """Asks the resolver's port of a host; returns the answer."""
        question = self.question(number)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.bind(('127.0.0.1', 0))
            sock.sendto(p.encode_resolver(question), (address, PORT))
            packet = p.decode_resolver(sock.recv(2000))
        assert packet.nonce == question.nonce, 'an answer to another question'
        self.count(packet)
        return packet

    def resolver_input(self, sock, data, sender):
        packet = p.decode_resolver(data)
        self.count(packet)
        host = HOST_LOCAL if isinstance(sender, bytes) else self.host(sender)
        if packet.type != p.QUESTION:
            self.answers.get(packet.nonce, []).append(packet)
        elif packet.id in (0, self.id) and packet.asker != self.context:
            asked_for = packet.host if packet.extra and sock is self.named else host
            answer = self.record(packet.nonce, packet.asker, asked_for)
            sock.sendto(p.encode_resolver(answer), sender)
        elif sock is self.network:
            answer = p.Packet(type=p.NOBODY, extra=1, nonce=packet.nonce, id=packet.id)
            sock.sendto(p.encode_resolver(answer), sender)

    # ---- packets ----------------------------------------------------------------------------

    @staticmethod
    def host(address):
        return bytes(10) + b'\xff\xff' + socket.inet_aton(address[0])

    def count(self, packet):
        name = p.NAMES[packet.type]
        self.counts[name] = self.counts.get(name, 0) + 1

    def partner(self, incarnation, context, number, address):
        key = (incarnation, context, number)
        if key not in self.partners:
            partner = Partner(incarnation=incarnation, context=context, id=number, address=address)
            self.partners[key] = self.by_token[partner.token_in] = partner
        return self.partners[key]

    def echo(self):
        age = time.monotonic() - self.stamp_came
        return (self.stamp + int(age * 1e6)) % (1 << 32) or 1 if self.stamp and age < 0.05 else 0

    def send(self, partner, kind, number=0, **fields):
        """Sends a packet to a partner, with hello until our token has come back."""
        packet = p.Packet(type=kind, src=self.incarnation, dst=partner.incarnation,
                          token=partner.token_out, number=number, **fields)
        if not partner.known:
            packet.hello = p.Packet(token=partner.token_in, service=self.id, context=self.context,
                                    to_service=partner.id, proof=partner.proof, unasked=UNASKED)
        self.socket.sendto(p.encode(packet), partner.address)

    def answer_stranger(self, packet, address, kind, **fields):
        if packet.type in (p.RETRY, p.GONE, p.ABORT, p.ECHO_REPLY):
            return
        token = packet.hello.token if packet.hello else 0
        answer = p.Packet(type=kind, src=packet.dst, dst=packet.src, token=token,
                          number=packet.token, **fields)
        self.socket.sendto(p.encode(answer), address)

    def datagram(self, data, address):
        try:
            packet = p.decode(data)
        except p.Malformed as why:
            self.bad.append((str(why), data))
            return
        self.count(packet)
        partner = self.by_token.get(packet.token)
        if packet.type == p.ABORT:
            self.aborts.append(packet)
        elif packet.type == p.RETRY:
            self.retry(packet)
        elif packet.type == p.GONE:
            self.goodbye(packet)
        elif partner and packet.dst == self.incarnation and packet.src == partner.incarnation:
            partner.known = True
            self.dispatch(packet, partner)
        else:
            self.stranger(packet, address)

    def retry(self, packet):
        partner = self.by_token.get(packet.token) or next(
            (each for each in self.partners.values()
             if packet.number and each.token_out == packet.number), None)
        if partner:
            partner.proof, partner.token_out, partner.known = packet.proof, 0, False

    def goodbye(self, packet):
        for partner in self.partners.values():
            tokens = (packet.token in (0, partner.token_in), packet.number in (0, partner.token_out))
            if packet.src == partner.incarnation and all(tokens) and (packet.token or packet.number):
                partner.gone = True
                self.goodbyes.append(packet)

    def stranger(self, packet, address):
        host = self.host(address)
        hello = packet.hello
        if packet.dst != self.incarnation:
            self.answer_stranger(packet, address, p.GONE, since=1)
        elif not hello or packet.token or self.tamper(packet, None) or \
                not self.proof_holds(hello.proof, host, hello.context, packet.src):
            asker = hello.context if hello else packet.src
            self.answer_stranger(packet, address, p.RETRY, proof=self.proof(asker, host))
        elif hello.to_service == self.id:
            partner = self.partner(packet.src, hello.context, hello.service, address)
            self.dispatch(packet, partner)
            self.send(partner, p.HELLO_ONLY)

    def dispatch(self, packet, partner):
        if packet.hello:
            partner.token_out, partner.unasked = packet.hello.token, packet.hello.unasked
        if packet.stamp and packet.type in (p.ANNOUNCE, p.PULL):
            self.stamp, self.stamp_came = packet.stamp, time.monotonic()
        if self.tamper(packet, partner):
            return
        if packet.ack:
            self.resolve(partner, packet.ack)
        handler = {p.SHORT: self.on_short, p.ANNOUNCE: self.on_announce, p.DATA: self.on_data,
                   p.PULL: self.on_pull, p.CANCEL: self.on_cancel, p.ECHO: self.on_echo,
                   p.ECHO_REPLY: lambda packet, _: self.pongs.append(packet.nonce),
                   p.ANSWER: lambda packet, partner: self.resolve(partner, packet.answer)}
        handler.get(packet.type, lambda *_: None)(packet, partner)

    def on_echo(self, packet, partner):
        self.send(partner, p.ECHO_REPLY, nonce=packet.nonce, stamp=packet.stamp)

    # ---- messages that come -----------------------------------------------------------------

    def deliver(self, partner, packet, kind, items):
        self.messages.append(SimpleNamespace(partner=partner, kind=kind, items=items,
                                             number=packet.number, lends=packet.lends,
                                             replies=packet.replies, previous=packet.previous))

    def on_short(self, packet, partner):
        if packet.number not in partner.shorts:
            partner.shorts.add(packet.number)
            self.deliver(partner, packet, 'short', p.items_of(packet))

    def answer(self, partner, number):
        receive = partner.receives[number]
        also = sum(1 << bit for bit in range(64)
                   if getattr(partner.receives.get(number - 64 + bit), 'status', None) == 0)
        self.send(partner, p.ANSWER, number, answer=p.Packet(
            number=number, status=receive.status, also=also, echo=self.echo()))

    def on_announce(self, packet, partner):
        receive = partner.receives.get(packet.number)
        if receive and receive.status is not None:
            self.answer(partner, packet.number)
            return
        if not receive:
            receive = Receive(total=packet.total, lengths=packet.lengths, ranges=[], status=None,
                              bytes=bytearray(packet.total), sum=None, packet=packet, granted=0,
                              came=time.monotonic(), asked=0)
            partner.receives[packet.number] = receive
        assert receive.lengths == packet.lengths, 'announced again with other lengths'
        if packet.last and len(packet.payload) == packet.total:
            receive.sum = packet.sum
        self.arrived(partner, receive, 0, packet.payload)
        if receive.status is None and not packet.unasked > len(packet.payload):
            self.pull(partner, receive)

    def on_data(self, packet, partner):
        receive = partner.receives.get(packet.number)
        if receive and receive.status is None:
            if packet.last:
                receive.sum = packet.sum
            self.arrived(partner, receive, packet.offset, packet.payload)

    def arrived(self, partner, receive, offset, payload):
        receive.came = time.monotonic()
        if payload:
            receive.ranges.append((offset, offset + len(payload)))
            receive.bytes[offset:offset + len(payload)] = payload
        holes = receive.missing()
        receive.ranges = self.merged(holes, receive.total)
        if not holes and (receive.sum is not None or receive.total == 0):
            self.complete(partner, receive)
        elif holes and holes[0][0] >= receive.granted > 0:
            self.pull(partner, receive)

    @staticmethod
    def merged(holes, total):
        """What is there, from what is not."""
        edges = [0] + [edge for hole in holes for edge in hole] + [total]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]

    def complete(self, partner, receive):
        previous = receive.packet.previous
        if previous and getattr(partner.receives.get(previous), 'status', None) != 0:
            return  # its turn comes
        data = bytes(receive.bytes)
        assert receive.total == 0 or p.crc32c(data) == receive.sum, 'the checksum of the message'
        items, at = [], 0
        for length in receive.lengths:
            items.append(data[at:at + length])
            at += length
        receive.status = 0
        self.deliver(partner, receive.packet, 'long', items)
        self.answer(partner, receive.packet.number)
        for other in list(partner.receives.values()):
            if other.status is None and other.packet.previous == receive.packet.number:
                self.arrived(partner, other, 0, b'')

    def pull(self, partner, receive, again=False, busy=0):
        holes = receive.missing()
        have = holes[0][0] if holes else receive.total
        asked = []
        if again:
            asked = [(a, min(b, receive.granted)) for a, b in holes if a < receive.granted][:48]
        receive.granted = receive.granted if asked or busy else min(receive.total, have + GRANT)
        receive.came = time.monotonic()
        self.send(partner, p.PULL, receive.packet.number, have=have, limit=receive.granted, holes=asked,
                  stamp=now_us(), echo=self.echo(), busy=busy)

    def on_cancel(self, packet, partner):
        receive = partner.receives.setdefault(packet.number, Receive(
            status=None, packet=packet, came=0, total=0, lengths=[], ranges=[]))
        if receive.status is None:
            receive.status = ECANCELED
        self.answer(partner, packet.number)

    # ---- messages that go -------------------------------------------------------------------

    def send_short(self, partner, items, number=None, **fields):
        number = number or partner.next_short
        partner.next_short = max(number + 1, partner.next_short)
        self.send(partner, p.SHORT, number, lengths=[len(item) for item in items],
                  payload=b''.join(items), **fields)
        return number

    def begin_long(self, partner, items, previous=None, **fields):
        """Announces a long message; resolve_all() or run() see it through."""
        data, number = b''.join(items), partner.next_long
        partner.next_long += 1
        send = Send(number=number, data=data, lengths=[len(item) for item in items], outcome=None,
                    again=0, fields=fields, previous=previous, skip=set(), quiet=False)
        partner.sends[number] = send
        self.announce(partner, send)
        return send

    def announce(self, partner, send):
        total = len(send.data)
        unasked = min(total, 1200)
        last = unasked == total and total > 0
        oldest = min((n for n, each in partner.sends.items() if each.outcome is None),
                     default=send.number)
        self.send(partner, p.ANNOUNCE, send.number, total=total, oldest=oldest, unasked=unasked,
                  lengths=send.lengths, last=last, sum=p.crc32c(send.data) if last else 0,
                  payload=send.data[:unasked], stamp=now_us(), echo=self.echo(),
                  previous=send.previous, **send.fields)
        send.again = time.monotonic() + REPEAT

    def on_pull(self, packet, partner):
        send = partner.sends.get(packet.number)
        if not send or send.outcome is not None:
            return
        send.again, send.pulled = time.monotonic() + 4 * REPEAT, True
        wanted = packet.holes + [(max(packet.have, getattr(send, 'sent', 0)), packet.limit)]
        for start, end in wanted:
            self.send_range(partner, send, start, min(end, len(send.data)))
        send.sent = max(getattr(send, 'sent', 0), min(packet.limit, len(send.data)))

    def send_range(self, partner, send, start, end):
        for at in range(start, end, PIECE):
            piece = send.data[at:min(end, at + PIECE)]
            last = at + len(piece) == len(send.data)
            if at in send.skip:
                send.skip.discard(at)  # lost on the way
                continue
            self.send(partner, p.DATA, send.number, offset=at, payload=piece, last=last,
                      sum=p.crc32c(send.data) if last else self.echo())

    def cancel(self, partner, send):
        self.send(partner, p.CANCEL, send.number, oldest=send.number)

    @staticmethod
    def resolve(partner, ack):
        numbers = [ack.number - 64 + bit for bit in range(64) if ack.also >> bit & 1]
        for number, status in [(ack.number, ack.status)] + [(number, 0) for number in numbers]:
            send = partner.sends.get(number)
            if send and send.outcome is None:
                send.outcome = status

    # ---- the loop ---------------------------------------------------------------------------

    def tick(self):
        now = time.monotonic()
        for partner in self.partners.values():
            for send in partner.sends.values():
                if send.outcome is None and now > send.again and not send.quiet and not partner.gone:
                    self.announce(partner, send)
            for receive in partner.receives.values():
                if receive.status is None and now > receive.came + 4 * REPEAT and not partner.gone:
                    self.pull(partner, receive, again=receive.granted > 0)

    def run(self, until, what='something', seconds=20):
        """Handles what comes until until() is true."""
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                raise Timeout(f'{what} did not come; bad packets: {self.bad[:3]}')
            for sock in select.select(self.loop, [], [], 0.01)[0]:
                data, sender = sock.recvfrom(65536)
                if sock is self.socket:
                    self.datagram(data, sender)
                else:
                    self.resolver_input(sock, data, sender)
            self.tick()
