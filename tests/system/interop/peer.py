# SPDX-License-Identifier: BSD-3-Clause
"""A context with one service, written from docs/protocol.md alone, the sources unread.

It speaks UDP over IPv4 and IPv6, and knows the resolver's multicast, unicast and local sources. One
thread: run(until) handles what comes until until() is true. A test selects faults by `lose`,
`refuse`, `busy`, `deaf`.
"""
import os
import select
import socket
import struct
import time
from types import SimpleNamespace as Bag

import protocol as w

GROUP, GROUP6, PORT = '239.255.76.82', 'ff15::f269:7063', 15511
BYTES = bytes((i * i >> 3) & 255 for i in range(65521)) * 7
WINDOW, UNASKED = 256 << 10, 64 << 10


def cut(size, n_items=1):
    """The bytes of every message, as partner.c makes them, cut into items."""
    edges = [size * i // n_items for i in range(n_items + 1)]
    return [BYTES[a:b] for a, b in zip(edges, edges[1:])]


def number():
    return int.from_bytes(os.urandom(8), 'little') | 1


def now_us():
    return (time.monotonic_ns() // 1000) % 2 ** 32 or 1


def blob(port):
    return struct.pack('<BBH', 1, 0, port)


def reached(address, record):
    """Where the UDP address of a record leads."""
    return next(((address, struct.unpack('<H', data[2:])[0]) for backend, data in record.addrs
                 if backend == 1 and w.is_address(backend, data)), None)


class Partner:
    """The known state of one incarnation of another service."""

    def __init__(self, incarnation, service=0, where=None):
        self.incarnation, self.service, self.where = incarnation, service, where
        self.given, self.token, self.returned = number(), 0, False
        self.proof, self.unasked, self.context = 0, 0, 0
        self.shorts = self.longs = 0
        self.replies = w.REPLIES_FROM
        self.unresolved, self.sent, self.coming, self.done = set(), {}, {}, {}
        self.seen, self.stamp, self.stamp_at = set(), 0, 0

    def oldest(self, number):
        """The columns of the row with that number."""
        return min((n for n in self.unresolved if w.is_of_reply(n) == w.is_of_reply(number)), default=number)

    def next_long(self, call):
        if w.is_reply(call):
            self.replies += 1
            return self.replies
        self.longs += 1
        return self.longs

    def echo(self):
        """The last stamp and what has passed since."""
        age = time.monotonic() - self.stamp_at
        return (self.stamp + int(age * 1e6)) % 2 ** 32 or 1 if self.stamp and age < 0.05 else 0


class Peer:
    def __init__(self, name, address):
        self.service, self.incarnation, self.context = w.name_id(name), number(), number()
        self.address, self.identity, self.stamp = address, 0, time.time_ns()
        self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.udp.bind(('::', 0))
        self.asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.asking.bind((address, 0))
        self.asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        self.group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            self.group.setsockopt(socket.SOL_SOCKET, option, 1)
        self.group.bind(('', PORT))
        self.group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                              socket.inet_aton(GROUP) + socket.inet_aton(address))
        self.group.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        self.partners, self.came, self.log, self.heard, self.malformed = {}, [], [], [], []
        self.answers_queries, self.deaf, self.lose, self.refuse, self.mute = True, False, None, 0, set()
        self.busy, self.files, self.gone_at = 0, {}, time.monotonic()

        self.local = self.named = None
        self.asking6 = self.group6 = None  # see listen_six()
        self.answers_over = (4, 6)
        self.member, self.others = None, []  # of a group, see many.py; peers for whom this one answers queries

    def renew(self):
        """Another process, that has the ID now."""
        self.incarnation, self.context, self.stamp = number(), number(), time.time_ns()
        self.partners, self.gone_at = {}, time.monotonic()

    def close(self):
        for sock in filter(None, (self.udp, self.asking, self.group, self.local, self.named)):
            sock.close()
        self.close_six()

    def listen_six(self, address, device):
        """The resolver's group and port over IPv6, too."""
        index = socket.if_nametoindex(device)
        self.asking6, self.group6 = (socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in range(2))
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            self.group6.setsockopt(socket.SOL_SOCKET, option, 1)
        for sock, name in ((self.asking6, (address, 0)), (self.group6, ('::', PORT))):
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            sock.bind(name)
            self.files[sock] = lambda sock=sock: self.on_resolver(*sock.recvfrom(65536))
        self.group6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                               socket.inet_pton(socket.AF_INET6, GROUP6) + struct.pack('=I', index))

    def close_six(self):
        for sock in filter(None, (self.asking6, self.group6)):
            self.files.pop(sock, None)
            sock.close()
        self.asking6 = self.group6 = None

    # -- the loop

    def run(self, until, seconds=5.0):
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            sockets = [self.udp, self.asking, self.group] + list(self.files)
            for ready in select.select(sockets, [], [], 0.02)[0]:
                if ready in self.files:
                    self.files[ready]()
                else:
                    self.on_datagram(ready, *ready.recvfrom(65536))
            self.tick()
        return until()

    def on_datagram(self, sock, data, where):
        if sock is not self.udp:
            self.on_resolver(data, where)
            return
        if not data:
            return
        try:
            packet = self.decode(data)
        except (w.Malformed, w.Unknown) as wrong:
            self.malformed.append((str(wrong), data.hex()))
            return
        packet.where, packet.size = where, len(data)
        if self.lose and self.lose(packet):
            return
        self.log.append(packet)
        if not self.deaf:
            self.on_packet(packet)

    decode = staticmethod(w.decode)

    def saw(self, type, after=0, **fields):
        """Packets of a type among those since `after`."""
        return [p for p in self.log[after:] if p.type == type and
                all(getattr(p, k) == v for k, v in fields.items())]

    def said(self, after):
        """All since `after` but ECHO, by which the other end asks at any time whether we live."""
        return [p for p in self.log[after:] if p.type != w.ECHO]

    # -- resolver

    def on_resolver(self, data, where):
        try:
            packet = w.decode_resolver(data)
        except w.Malformed as wrong:
            self.malformed.append((str(wrong), data.hex()))
            return
        packet.where = where
        if packet.asker == self.context:
            return
        self.heard.append(packet)
        family, sock = (6, self.group6) if ':' in where[0] else (4, self.group)
        if packet.type != w.QUERY or not self.answers_queries or family not in self.answers_over:
            return
        for peer in (self, *self.others):
            if packet.id in (peer.service, 0):
                sock.sendto(peer.record(packet.nonce), where)
            elif peer.member and packet.id == peer.member.group:
                sock.sendto(peer.record(packet.nonce, packet.id), where)

    def record(self, nonce=0, group=0):
        rest = w.record_rest(self.incarnation, self.service if group else self.stamp, self.identity, self.context,
                             [(1, blob(self.udp.getsockname()[1]))])
        # The proof: whoever asked gets one that says nothing; this context makes state for all.
        return w.write_resolver(w.RECORD, nonce, 0 if nonce else self.context, group or self.service,
                                number() if nonce else 0, rest=rest)

    def ask(self, id, to=None, third=0, host=bytes(16), seconds=20, sock=None):
        """The answers to a query, by multicast or to one host."""
        nonce = number()
        query = w.write_resolver(w.QUERY, nonce, self.context, id, third=third, host=host)
        (sock or self.asking).sendto(query, to or (GROUP, PORT))
        found = lambda: [p for p in self.heard if p.type != w.QUERY and p.nonce == nonce]
        self.run(found, seconds)
        return found()

    def notice_of_end(self):
        return w.write_resolver(w.WITHDRAWN, 0, self.context, self.service, rest=struct.pack('<Q', self.incarnation))

    def listen_local(self):
        """The local source alone: the name of our ID, and a socket for answers."""
        self.answers_queries = False
        with open('/proc/sys/kernel/random/boot_id', 'rb') as file:
            boot = file.read()
        there = os.stat('/proc/self/ns/net')
        self.identity = w.siphash(bytes(16), boot.ljust(40, b'\0') + struct.pack('=QQ', there.st_dev, there.st_ino))
        self.local, self.named = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        for sock, name in ((self.local, ''), (self.named, self.local_name(self.service))):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            sock.bind(name)
            self.files[sock] = lambda sock=sock: self.on_local(sock)

    @staticmethod
    def local_name(id):
        return f'\0ripc/{os.getuid():x}/{id:016x}/0'

    def on_local(self, sock):
        data, parts, _, where = sock.recvmsg(2000, socket.CMSG_SPACE(12))
        packet = w.decode_resolver(data)
        sender = struct.unpack('=iII', parts[0][2])
        if sender[1] not in (0, os.getuid()):
            return
        self.heard.append(packet)
        if packet.type == w.QUERY and packet.id in (self.service, 0):
            self.local.sendto(self.record(packet.nonce), where)

    def ask_local(self, id):
        nonce = number()
        self.local.sendto(w.write_resolver(w.QUERY, nonce, self.context, id), self.local_name(id))
        found = lambda: [p for p in self.heard if p.type == w.RECORD and p.nonce == nonce]
        self.run(found, 20)
        return found()[0]

    def meet(self, record, where=None):
        """The partner that a record speaks of."""
        partner = Partner(record.incarnation, record.id, where or reached(record.where[0], record))
        partner.proof, partner.context = record.proof, record.context
        self.partners[record.incarnation] = partner
        return partner

    # -- sending

    def send(self, partner, type, num=0, body=b'', payload=b'', flags=0, where=None, **parts):
        if not partner.returned and type != w.DATA:
            parts['hello'] = (partner.given, self.service, self.context, partner.service or 1, partner.proof, UNASKED)
        where = where or partner.where
        data = w.write(type, self.incarnation, partner.incarnation, partner.token, num, body, payload, flags, **parts)
        if len(where) == 2 and ':' not in where[0]:
            where = ('::ffff:' + where[0], where[1])
        self.udp.sendto(data, where)
        return data

    def short(self, partner, items, num=0, **parts):
        if not num:
            partner.shorts += 1
            num = partner.shorts
        body = struct.pack(f'<{len(items)}H', *map(len, items)) if len(items) > 1 else b''
        return self.send(partner, w.SHORT, num, body, b''.join(items), len(items) << 8, **parts)

    def long(self, partner, items, first=None, sum_right=True, order=False, **parts):
        """Begins a long message; what becomes of it stands in the result's `status`."""
        data = b''.join(items)
        unasked = min(len(data), partner.unasked, 1100) if first is None else first
        out = Bag(number=partner.next_long(parts.get('call')), data=data, lengths=[len(x) for x in items], unasked=unasked,
                  sum=w.crc32c(data) ^ (not sum_right), reached=unasked, status=None, pulls=0, busy=0, parts=parts,
                  at=0, wait=0.05)
        if order:
            before = [n for n in partner.sent if partner.sent[n].parts.get('previous') is not None
                      and partner.sent[n].status != 0]
            parts['previous'] = max(before, default=0)
        partner.sent[out.number] = out
        partner.unresolved.add(out.number)
        self.announce(partner, out)
        return out

    def announce(self, partner, out):
        whole = out.unasked == len(out.data)
        body = w.ANNOUNCE_PART.pack(len(out.data), partner.oldest(out.number), len(out.lengths), out.unasked,
                                    out.sum if whole else 0, 0, now_us(), partner.echo())
        body += struct.pack(f'<{len(out.lengths)}Q', *out.lengths)
        out.at = time.monotonic()
        self.send(partner, w.ANNOUNCE, out.number, body, out.data[:out.unasked], w.LAST if whole else 0, **out.parts)

    def data(self, partner, out, start, end):
        while start < end:
            stop = min(start + 1200, end)
            last = stop == len(out.data)
            self.send(partner, w.DATA, out.number, w.DATA_PART.pack(start, out.sum if last else partner.echo()),
                      out.data[start:stop], w.LAST if last else 0)
            start = stop

    def cancel(self, partner, out):
        self.send(partner, w.CANCEL, out.number, struct.pack('<Q', partner.oldest(out.number)))

    # -- what comes

    def on_packet(self, p):
        if p.dst != self.incarnation and p.type != w.ABORT:
            self.send_back(p, w.GONE)
            return
        if p.type == w.ABORT:
            return
        partner = self.partners.get(p.src)
        if p.type in (w.RETRY, w.GONE):
            self.on_word(partner, p)
            return
        if p.hello and (not partner or p.token == 0):
            partner = self.greet(p, partner)
        if not partner or p.token not in (0, partner.given) or p.token == 0 and not p.hello:
            self.send_back(p, w.RETRY)
            return
        if p.hello:
            if p.hello.to_service != self.service:
                return
            partner.token, partner.service, partner.unasked = p.hello.token, p.hello.service, p.hello.unasked
            partner.context = p.hello.context
        partner.returned = partner.returned or p.token == partner.given
        if p.type in (w.ANNOUNCE, w.PULL) and p.stamp:
            partner.stamp, partner.stamp_at = p.stamp, time.monotonic()
        if p.ack:
            self.on_end(partner, p.ack)
        {w.SHORT: self.on_short, w.ANNOUNCE: self.on_announce, w.DATA: self.on_data, w.PULL: self.on_pull,
         w.ANSWER: lambda a, b: self.on_end(a, b.answer), w.CANCEL: self.on_cancel,
         w.ECHO: self.on_echo, w.STREAM: self.on_stream}.get(p.type, lambda a, b: None)(partner, p)

    def greet(self, p, partner):
        if not partner:
            partner = Partner(p.src, p.hello.service, p.where)
            self.partners[p.src] = partner
        partner.token = p.hello.token
        if p.type != w.HELLO_ONLY:
            self.send(partner, w.HELLO_ONLY)
        return partner

    def send_back(self, p, type):
        """GONE and RETRY, to who may be a stranger."""
        token = p.hello.token if p.hello else 0
        value = int((time.monotonic() - self.gone_at) * 1e6) if type == w.GONE else number()
        reply = w.write(type, p.dst, p.src, token, p.token, struct.pack('<Q', value))
        if p.type not in (w.RETRY, w.GONE, w.ABORT) and p.size >= len(reply):
            self.udp.sendto(reply, p.where)

    def send_word(self, partner, type, given):
        """GONE, unasked, to a partner."""
        body = struct.pack('<Q', 0)
        self.udp.sendto(w.write(type, self.incarnation, partner.incarnation, partner.token, given, body), partner.where)

    def on_word(self, partner, p):
        """RETRY, GONE: believed if they give back our token, or the partner's."""
        if not partner or p.number != partner.token and p.token != partner.given:
            return
        if p.type == w.RETRY:
            partner.proof, partner.token, partner.returned = p.value, 0, False

    def on_short(self, partner, p):
        if p.number in partner.seen:
            return
        partner.seen.add(p.number)
        if p.call and p.call[0] == 4:
            if self.member:
                self.member.on_copy(partner, p)
            return
        self.came.append(Bag(kind='short', partner=partner, number=p.number, lengths=p.lengths, data=p.payload,
                             lends=p.lends, replies=p.replies))

    def on_stream(self, partner, p):
        if self.member:
            self.member.on_stream(partner, p)

    def on_announce(self, partner, p):
        rows = {w.is_reply(p.call), w.is_of_reply(p.number), w.is_of_reply(p.oldest)}
        if len(rows) > 1 or p.oldest > p.number:
            self.malformed.append(('row', p.number, p.oldest))
        if p.number in partner.done:
            self.answer(partner, p.number, partner.done[p.number])
            return
        if self.refuse:
            partner.done[p.number] = self.refuse
            self.answer(partner, p.number, self.refuse)
            return
        if self.busy:
            self.pull_packet(partner, p.number, 0, 0, [], self.busy)
            return
        long = partner.coming.get(p.number)
        if not long:
            long = Bag(number=p.number, data=bytearray(p.total), have=[], lengths=p.lengths, sum=None, limit=p.unasked,
                       at=time.monotonic(), lends=p.lends, replies=p.replies, call=p.call, previous=p.previous, pulled=0,
                       holes=0)
            partner.coming[p.number] = long
        if len(p.payload) == p.total and p.flags & w.LAST:
            long.sum = p.sum
        self.take(partner, long, 0, p.payload)

    def on_data(self, partner, p):
        long = partner.coming.get(p.number)
        if not long:
            return
        if p.flags & w.LAST:
            long.sum = p.sum
        if p.offset + len(p.payload) <= long.limit:
            self.take(partner, long, p.offset, p.payload)

    def take(self, partner, long, start, payload):
        long.at = time.monotonic()
        if payload:
            long.data[start:start + len(payload)] = payload
            merged = []
            for a, b in sorted(long.have + [(start, start + len(payload))]):
                if merged and a <= merged[-1][1]:
                    merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
                else:
                    merged.append((a, b))
            long.have = merged
        total, have = len(long.data), self.have(long)
        if have == total and (total == 0 or long.sum is not None or start == 0 and len(payload) == total):
            right = long.sum is None or w.crc32c(bytes(long.data)) == long.sum
            del partner.coming[long.number]
            partner.done[long.number] = 0 if right else w.EBADMSG
            if right:
                self.came.append(Bag(kind='long', partner=partner, number=long.number, lengths=long.lengths,
                                     data=bytes(long.data), lends=long.lends, replies=long.replies, call=long.call,
                                     previous=long.previous, pulled=long.pulled, holes=long.holes))
            self.answer(partner, long.number, partner.done[long.number])
        elif have + WINDOW // 2 > long.limit and long.limit < total or not long.pulled:
            long.limit = max(long.limit, min(total, have + WINDOW))
            self.pull(partner, long, [])

    @staticmethod
    def have(long):
        return long.have[0][1] if long.have and long.have[0][0] == 0 else 0

    def pull(self, partner, long, holes):
        long.pulled += 1
        long.holes += len(holes)
        long.at = time.monotonic()
        self.pull_packet(partner, long.number, self.have(long), long.limit, holes, 0)

    def pull_packet(self, partner, num, have, limit, holes, busy):
        body = w.PULL_PART.pack(have, limit, len(holes), busy, now_us(), partner.echo())
        self.send(partner, w.PULL, num, body + b''.join(struct.pack('<QQ', *x) for x in holes))

    def answer(self, partner, num, status):
        also = sum(1 << i for i in range(64) if partner.done.get(num - 64 + i) == 0)
        self.send(partner, w.ANSWER, num, w.ACK_PART.pack(num, status, also, partner.echo()))

    def on_cancel(self, partner, p):
        partner.coming.pop(p.number, None)
        partner.done.setdefault(p.number, w.ECANCELED)
        self.answer(partner, p.number, partner.done[p.number])

    def on_pull(self, partner, p):
        out = partner.sent.get(p.number)
        if out and out.status is not None:
            self.send(partner, w.CANCEL, p.number, struct.pack('<Q', min(partner.oldest(p.number), p.number)))
        if not out or out.status is not None:
            return
        out.pulls += 1
        out.at = time.monotonic()
        if p.busy:
            out.busy = p.busy
            return
        for start, end in p.holes:
            self.data(partner, out, start, min(end, out.reached))
        limit = min(p.limit, len(out.data))
        self.data(partner, out, out.reached, limit)
        out.reached = max(out.reached, limit)

    def on_end(self, partner, ack):
        for num, out in partner.sent.items():
            if num == ack.number and out.status is None:
                out.status = ack.status
            elif 0 <= num - ack.number + 64 < 64 and ack.also >> num - ack.number + 64 & 1:
                out.status = 0
            if out.status is not None:
                partner.unresolved.discard(num)

    def on_echo(self, partner, p):
        self.send(partner, w.ECHO_REPLY, 0, struct.pack('<QQ', p.nonce, p.stamp), where=p.where)

    # -- time

    def tick(self):
        now = time.monotonic()
        for partner in list(self.partners.values()):
            for long in list(partner.coming.values()):
                if now - long.at > 0.05:
                    self.pull(partner, long, self.holes(long))
            for out in list(partner.sent.values()):
                if out.status is None and now - out.at > out.wait and not self.deaf:
                    out.wait = min(out.wait * 2, 0.5)
                    self.announce(partner, out)

    @staticmethod
    def holes(long):
        ends = [0] + [b for _, b in long.have]
        starts = [a for a, _ in long.have] + [min(long.limit, len(long.data))]
        return [(a, b) for a, b in zip(ends, starts) if a < b][:48]
