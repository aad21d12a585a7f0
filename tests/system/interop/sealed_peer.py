# SPDX-License-Identifier: BSD-3-Clause
"""The peer of peer.py with keys: its packets are sealed, its queries marked. Written from docs/protocol.md alone."""
import os
import struct
import time

import peer as peers
import protocol as w
import sealed as s


def place(where):
    """An address as a key: of IPv4 as such."""
    return where[0].removeprefix('::ffff:'), where[1]


class Marked:
    """A socket of the resolver."""

    def __init__(self, sock, keys):
        self.sock, self.keys, self.refused = sock, keys, []

    def sendto(self, data, where):
        self.sock.sendto(s.mark(self.keys, data), where)

    def recvfrom(self, size):
        data, where = self.sock.recvfrom(size)
        try:
            return s.unmark(self.keys, data), where
        except s.Malformed:
            self.refused.append(data)
            return None, where

    def __getattr__(self, name):
        return getattr(self.sock, name)


class Member:
    """A context at an address."""

    def __init__(self, where, public=None, context=0, proof=0):
        self.where, self.public, self.context, self.proof = where, public, context, proof
        self.waiting, self.noise, self.index, self.began = [], None, 0, 0
        self.session = self.next = self.mac = None


class Sealed:
    """A UDP socket: bare packets above, sealed datagrams below."""

    def __init__(self, sock, keys, peer, aes):
        self.sock, self.keys, self.peer, self.aes = sock, keys, peer, aes
        self.members, self.sessions, self.seen, self.sent, self.wrong = {}, {}, [], [], []
        self.answers, self.stamp, self.secret = [], 0, os.urandom(32)

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def throw(self, data, where):
        self.sent.append(data)
        self.sock.sendto(data, where if ':' in where[0] else ('::ffff:' + where[0], where[1]))

    def reset(self, index):
        """The meaning of an UNKNOWN about a session of ours."""
        return struct.unpack('<Q', s.hmac_sha256(self.secret, struct.pack('<QI', self.peer.context, index))[:8])[0]

    def begin(self, member):
        """A handshake, each time a new one."""
        member.index, self.stamp = int.from_bytes(os.urandom(4), 'little') | 1, max(self.stamp + 1, time.monotonic_ns())
        init, member.noise = s.write_init(self.keys, member.public, os.urandom(32), member.index, self.peer.context,
                                          member.context, member.proof, self.stamp, self.aes,
                                          self.reset(member.index))
        member.began, member.mac = time.monotonic(), init[-s.MAC:]
        self.throw(init, member.where)

    def sendto(self, data, where):
        member = self.members[place(where)]
        if member.session:
            self.throw(member.session.seal(data), member.where)
        else:
            member.waiting.append(data)
            if not member.noise or time.monotonic() - member.began > 0.1:
                self.begin(member)

    def recvfrom(self, size):
        data, where = self.sock.recvfrom(size)
        if not data:
            return None, where
        self.seen.append(data)
        try:
            return self.take(data, where), where
        except s.Malformed as wrong:
            self.wrong.append((str(wrong), data.hex()))
            return None, where

    def take(self, data, where):
        s.want(len(data) >= 16 and data[0] == s.MAGIC, 'not sealed')
        known = {s.INIT: self.on_init, s.REPLY: self.on_reply, s.PROOF: self.on_proof, s.DATA: self.on_data,
                 s.UNKNOWN: self.on_unknown}
        s.want(data[1] in known, 'kind')
        return known[data[1]](data, place(where))

    def member_of(self, index, where):
        member = self.members.get(where)
        s.want(member and member.index == index and member.noise, 'handshake')
        return member

    def on_init(self, data, where):
        init = s.read_init(self.keys, data)
        if not init.proof or self.answers and self.answers.pop() == 'proof':
            self.throw(s.write_proof(self.keys, init, peers.number()), where)
            return
        member = self.members.setdefault(where, Member(where))
        member.public, member.context, member.shown = init.public, init.context, init.capabilities
        index, cipher = int.from_bytes(os.urandom(4), 'little') | 1, s.AES if init.aes and self.aes else s.CHACHA
        reply, split = s.write_reply(self.keys, init, os.urandom(32), index, cipher, 0, self.peer.context,
                                     self.reset(index))
        member.next = self.sessions[index] = s.Session(cipher, split, False, index, init.index)
        member.next.reset = init.reset
        self.throw(reply, where)

    def on_reply(self, data, where):
        member = self.member_of(struct.unpack_from('<I', data, 4)[0], where)
        reply = s.read_reply(self.keys, member.noise, data)
        s.want(reply.context == member.context, 'context')
        member.noise, member.refused, member.shown = None, reply.refused, reply.capabilities
        if reply.refused:
            return
        s.want(reply.cipher != s.AES or self.aes, 'cipher')
        self.use(member, s.Session(reply.cipher, reply.split, True, member.index, reply.own_index))
        member.session.reset = reply.reset
        self.throw(member.session.seal(b''), where)
        self.flush(member)

    def use(self, member, session):
        member.session = self.sessions[session.index] = session

    def flush(self, member):
        waiting, member.waiting = member.waiting, []
        for data in waiting:
            self.throw(member.session.seal(data), member.where)

    def on_proof(self, data, where):
        proof = s.read_proof(self.keys, data)
        member = self.member_of(proof.index, where)
        s.want(proof.context == self.peer.context and proof.mac == member.mac, 'context')
        member.proof = proof.proof
        self.begin(member)

    def on_data(self, data, where):
        index, counter = struct.unpack_from('<IQ', data, 4)
        session, member = self.sessions.get(index), self.members.get(where)
        if not session:
            self.throw(s.write_unknown(self.keys, index, counter, self.reset(index)), where)
            return None
        plain = session.unseal(data)
        if member.next is session:
            member.session, member.next = session, None
            self.flush(member)
        return plain

    def on_unknown(self, data, where):
        unknown, member = s.read_unknown(self.keys, data), self.members[where]
        if member.session and (unknown.index, unknown.reset) == (member.session.their_index, member.session.reset):
            self.begin(member)

    def forget(self):
        """As if all sessions had ended."""
        self.sessions.clear()
        for member in self.members.values():
            member.session = member.next = member.noise = None


class SealedPeer(peers.Peer):
    def __init__(self, name, address, keys, aes):
        super().__init__(name, address)
        self.keys, self.udp = keys, Sealed(self.udp, keys, self, aes)
        self.asking, self.group = Marked(self.asking, keys), Marked(self.group, keys)

    @staticmethod
    def decode(data):
        return w.decode(data, has_crc=False)

    def on_datagram(self, sock, data, where):
        if data:
            super().on_datagram(sock, data, where)

    def renew(self):
        super().renew()
        self.udp.members.clear()
        self.udp.sessions.clear()

    def record(self, nonce=0):
        where = s.address(peers.blob(self.udp.getsockname()[1]), self.keys, self.context)
        rest = w.record_rest(self.incarnation, self.stamp, self.identity, self.context, [(129, where)])
        return w.write_resolver(w.RECORD, nonce, 0 if nonce else self.context, self.service,
                                peers.number() if nonce else 0, rest=rest)

    def meet(self, record, where=None):
        (_, blob), = [addr for addr in record.addrs if addr[0] == 129]
        where = (record.where[0], struct.unpack_from('<H', blob, 2)[0])
        context, = struct.unpack_from('<Q', blob, 36)
        assert blob[:2] == b'\1\0' and context == record.context
        self.udp.members.setdefault(where, Member(where, blob[4:36], context, record.proof))
        return super().meet(record, where)
