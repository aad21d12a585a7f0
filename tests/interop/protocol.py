# SPDX-License-Identifier: BSD-3-Clause
"""Packets of the protocol, written from docs/protocol.md: decode() and encode().

decode() is strict: whatever the text calls malformed raises Malformed, an unknown version or flag
raises Unknown. What is decoded is a Packet whose fields have the names of the text; encode() gives
its one encoding. Resolver packets have functions of their own. All was written before the C sources were
read; then three rules became as lax as the library (and the text): a notice may have asker 0, or
a proof, and a record an address that is none.
"""
import struct
from types import SimpleNamespace

VERSION = 2
SHORT, ANNOUNCE, DATA, PULL, ANSWER, CANCEL, HELLO_ONLY, RETRY, ECHO, ECHO_REPLY, GONE, ABORT = \
    range(1, 13)
NAMES = dict(enumerate('SHORT ANNOUNCE DATA PULL ANSWER CANCEL HELLO_ONLY RETRY ECHO ECHO_REPLY GONE '
                       'ABORT'.split(), 1))
QUESTION, RECORD, WITHDRAWN, NOBODY = range(32, 36)
NAMES.update({QUESTION: 'QUESTION', RECORD: 'RECORD', WITHDRAWN: 'WITHDRAWN', NOBODY: 'NOBODY'})
HELLO, ACK, LENDS, REPLIES, LAST, RETURNS, ORDERED = (1 << bit for bit in range(7))
COMMON = {SHORT, ANNOUNCE, DATA, PULL, ANSWER, CANCEL, HELLO_ONLY, ECHO, ECHO_REPLY}
MESSAGE = {SHORT, ANNOUNCE}
ALLOWED = {HELLO: COMMON, ACK: COMMON - {ANSWER}, LENDS: MESSAGE, REPLIES: MESSAGE,
           LAST: {ANNOUNCE, DATA}, RETURNS: MESSAGE, ORDERED: {ANNOUNCE}}
NUMBERED = {SHORT, ANNOUNCE, DATA, PULL, ANSWER, CANCEL}
UNNUMBERED = {HELLO_ONLY, ECHO, ECHO_REPLY}
QUESTION_BYTES = 1100
MAX_HOLES, MAX_ITEMS, MAX_RETURNS, MAX_ERRNO, WRAP = 48, 64, 8, 4096, 1 << 64


class Malformed(Exception):
    """The packet breaks a rule of the text."""


class Unknown(Malformed):
    """A version or flag that is not known: answered ABORT."""


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)  # 0x1edc6f41 reflected
        table.append(byte)
    return table


TABLE = _table()


def crc32c(data, before=0):
    """CRC32C of data, continued from that of the bytes before it."""
    crc = ~before & 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return ~crc & 0xffffffff


MULTIPLIERS = (0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3)


def _mix(one, two):
    product = one * two
    return product & WRAP - 1 ^ product >> 64


def _block(data, offset):
    c = MULTIPLIERS
    lanes = [offset ^ c[3], offset ^ c[2], offset ^ c[1], offset ^ c[0]]
    data += bytes(-len(data) % 64)
    for words in struct.iter_unpack('<8Q', data):
        lanes = [_mix(words[2 * i] ^ c[i], words[2 * i + 1] ^ lanes[i]) for i in range(4)]
    return _mix(lanes[0] ^ c[1], lanes[1]) + _mix(lanes[2] ^ c[3], lanes[3])


def block_sum(items, offset=0):
    """Block sum of the items; the first begins `offset` bytes behind the message's beginning."""
    total = 0
    for item in items:
        for at in range(0, len(item), 4096):
            total += _block(item[at:at + 4096], offset + at)
        offset += len(item)
    total %= WRAP
    return total >> 32 ^ total & 0xffffffff


def siphash(data, key=bytes(16)):
    """SipHash-2-4."""
    k0, k1 = struct.unpack('<QQ', key)
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
         k1 ^ 0x7465646279746573]

    def rotate(word, by):
        return (word << by | word >> 64 - by) % WRAP

    def rounds(n):
        for _ in range(n):
            for a, b, left in ((0, 1, 13), (2, 3, 16)):
                v[a] = (v[a] + v[b]) % WRAP
                v[b] = rotate(v[b], left) ^ v[a]
            v[0] = rotate(v[0], 32)
            for a, b, left in ((0, 3, 21), (2, 1, 17)):
                v[a] = (v[a] + v[b]) % WRAP
                v[b] = rotate(v[b], left) ^ v[a]
            v[2] = rotate(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack('<Q', padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def id_of_name(name):
    return siphash(name.encode()) or 1


class Packet(SimpleNamespace):
    """Any packet; `type` tells which fields there are. Absent extensions are None."""

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return None


def want(holds, why):
    if not holds:
        raise Malformed(why)


class Reader:
    """Takes fields off the front of bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, layout):
        size = struct.calcsize('<' + layout)
        want(self.at + size <= len(self.data), 'too short')
        values = struct.unpack_from('<' + layout, self.data, self.at)
        self.at += size
        return values

    def rest(self):
        return self.data[self.at:]


# ---- extensions -----------------------------------------------------------------------------

def _hello(reader):
    token, service, context, to_service, proof, unasked, zero = reader.take('5QII')
    want(token and service and context and to_service, 'hello: 0 in a field that must not be')
    want(zero == 0, 'hello: not zero')
    return Packet(token=token, service=service, context=context, to_service=to_service,
                  proof=proof, unasked=unasked)


def _ack(reader):
    number, status, also, echo = reader.take('QIQI')
    want(number, 'ack: number 0')
    want(status < MAX_ERRNO, 'ack: status')
    return Packet(number=number, status=status, also=also, echo=echo)


def _returns(reader):
    n, zero = reader.take('II')
    want(1 <= n <= MAX_RETURNS and zero == 0, 'returns')
    return [reader.take('3Q') for _ in range(n)]


def _extensions(packet, reader):
    flags = packet.flags
    packet.hello = _hello(reader) if flags & HELLO else None
    packet.ack = _ack(reader) if flags & ACK else None
    packet.lends = reader.take('Q')[0] if flags & LENDS else None
    packet.replies = reader.take('Q')[0] if flags & REPLIES else None
    packet.returns = _returns(reader) if flags & RETURNS else None
    packet.previous = reader.take('Q')[0] if flags & ORDERED else None
    want(packet.returns is None or packet.lends is not None, 'returns without lends')
    want(packet.previous is None or packet.previous < packet.number, 'previous not before')


def _put_ack(ack):
    return struct.pack('<QIQI', ack.number, ack.status, ack.also, ack.echo)


def _put_extensions(packet):
    flags, out = 0, b''
    if packet.hello is not None:
        h = packet.hello
        flags |= HELLO
        out += struct.pack('<5QII', h.token, h.service, h.context, h.to_service, h.proof, h.unasked, 0)
    if packet.ack is not None:
        flags |= ACK
        out += _put_ack(packet.ack)
    for bit, value in ((LENDS, packet.lends), (REPLIES, packet.replies)):
        if value is not None:
            flags |= bit
            out += struct.pack('<Q', value)
    if packet.returns is not None:
        flags |= RETURNS
        out += struct.pack('<II', len(packet.returns), 0)
        out += b''.join(struct.pack('<3Q', *entry) for entry in packet.returns)
    if packet.previous is not None:
        flags |= ORDERED
        out += struct.pack('<Q', packet.previous)
    return flags, out


# ---- bodies ---------------------------------------------------------------------------------

def _short(packet, reader):
    n = packet.flags >> 8
    want(1 <= n <= MAX_ITEMS, 'short: n_items')
    lengths = list(reader.take(f'{n}H')) if n > 1 else None
    packet.prefix, packet.payload = reader.at, reader.rest()
    packet.lengths = lengths or [len(packet.payload)]
    want(sum(packet.lengths) == len(packet.payload), 'short: lengths')


def _put_short(packet):
    n = len(packet.lengths)
    return n << 8, struct.pack(f'<{n}H', *packet.lengths) if n > 1 else b''


def _announce(packet, reader):
    packet.total, packet.oldest, n, packet.unasked, packet.sum, packet.keys, packet.stamp, \
        packet.echo = reader.take('QQ6I')
    want(1 <= n <= MAX_ITEMS, 'announce: n_items')
    last = packet.flags & LAST
    want(packet.keys <= 4, 'announce: keys')
    want(packet.keys != 3 or packet.replies is not None, 'announce: keys 3 without REPLIES')
    want(packet.keys != 4 or not last, 'announce: keys 4 with LAST')
    want(last or packet.sum == 0, 'announce: sum without LAST')
    packet.lengths = list(reader.take(f'{n}Q'))
    want(sum(packet.lengths) == packet.total, 'announce: total')
    packet.places = [reader.take('QQ') for _ in range(n)] if packet.keys in (1, 2, 4) else []
    packet.prefix, packet.payload = reader.at, reader.rest()
    want(len(packet.payload) <= min(packet.unasked, packet.total), 'announce: payload')


def _put_announce(packet):
    n = len(packet.lengths)
    body = struct.pack(f'<QQ6I{n}Q', packet.total, packet.oldest, n, packet.unasked, packet.sum or 0,
                       packet.keys or 0, packet.stamp or 0, packet.echo or 0, *packet.lengths)
    return LAST if packet.last else 0, body + b''.join(struct.pack('<QQ', *p) for p in packet.places or [])


def _data(packet, reader):
    packet.offset, packet.sum = reader.take('QI')
    packet.prefix, packet.payload = reader.at, reader.rest()
    want(packet.offset + len(packet.payload) < WRAP, 'data: the end wraps')


def _put_data(packet):
    return LAST if packet.last else 0, struct.pack('<QI', packet.offset, packet.sum)


def _pull(packet, reader):
    packet.have, packet.limit, n, packet.busy, packet.stamp, packet.echo = reader.take('QQ4I')
    want(n <= MAX_HOLES and packet.busy <= 2, 'pull: n_holes or busy')
    packet.holes = [reader.take('QQ') for _ in range(n)]
    end = 0
    for hole in packet.holes:
        want(end <= hole[0] < hole[1], 'pull: holes')
        end = hole[1]


def _put_pull(packet):
    holes = packet.holes or []
    body = struct.pack('<QQ4I', packet.have, packet.limit, len(holes), packet.busy or 0,
                       packet.stamp or 0, packet.echo or 0)
    return 0, body + b''.join(struct.pack('<QQ', *hole) for hole in holes)


def _answer(packet, reader):
    packet.answer = _ack(reader)
    want(packet.answer.number == packet.number, 'answer: two numbers')


def _words(*names):
    def get(packet, reader):
        for name in names:
            setattr(packet, name, reader.take('Q')[0])

    def put(packet):
        return 0, b''.join(struct.pack('<Q', getattr(packet, name)) for name in names)
    return get, put


BODIES = {SHORT: (_short, _put_short), ANNOUNCE: (_announce, _put_announce), DATA: (_data, _put_data),
          PULL: (_pull, _put_pull), ANSWER: (_answer, lambda packet: (0, _put_ack(packet.answer))),
          CANCEL: _words('oldest'), HELLO_ONLY: _words(), RETRY: _words('proof'),
          ECHO: _words('nonce', 'stamp'), ECHO_REPLY: _words('nonce', 'stamp'), GONE: _words('since'),
          ABORT: _words('versions')}


# ---- packets --------------------------------------------------------------------------------

def _check_flags(packet):
    allowed = 0x7f | (0xff00 if packet.type == SHORT else 0)
    if packet.flags & ~allowed:
        raise Unknown('a flag that is not in use')
    for bit, types in ALLOWED.items():
        want(not packet.flags & bit or packet.type in types, 'a flag that the type does not allow')


def _check_header(packet):
    if packet.version != VERSION and packet.type != ABORT:
        raise Unknown(f'version {packet.version}')
    want(packet.type in BODIES, 'type')
    _check_flags(packet)
    want(packet.type == ABORT or packet.src and packet.dst, 'src or dst 0')
    want(packet.number or packet.type not in NUMBERED, 'number 0')
    want(not packet.number or packet.type not in UNNUMBERED, 'number not 0')


def decode(data, checked=True):
    """The packet of a datagram; with checked=False its crc must be zero (see *Checksum*)."""
    reader, packet = Reader(data), Packet()
    packet.version, packet.type, packet.flags, packet.crc, packet.src, packet.dst, packet.token, \
        packet.number = reader.take('BBHIQQQQ')
    _check_header(packet)
    packet.last = bool(packet.flags & LAST)
    _extensions(packet, reader)
    BODIES[packet.type][0](packet, reader)
    if packet.payload is None:
        want(not reader.rest(), 'bytes after the body')
        packet.prefix, packet.payload = len(data), b''
    if checked:
        prefix = data[:4] + bytes(4) + data[8:packet.prefix]
        want(packet.crc == crc32c(prefix, crc32c(packet.payload)), 'crc')
    return packet


def encode(packet):
    """The bytes of a packet."""
    flags, extensions = _put_extensions(packet)
    more, body = BODIES[packet.type][1](packet)
    parts = [struct.pack('<BBH', packet.version or VERSION, packet.type, flags | more), bytes(4),
             struct.pack('<4Q', packet.src, packet.dst, packet.token or 0, packet.number or 0),
             extensions, body]
    payload = packet.payload or b''
    parts[1] = struct.pack('<I', crc32c(b''.join(parts), crc32c(payload)))
    return b''.join(parts) + payload


def items_of(packet):
    """The items of a packet that has all of its message."""
    reader = Reader(packet.payload)
    return [reader.take(f'{length}s')[0] for length in packet.lengths]


# ---- resolver packets -----------------------------------------------------------------------

def _check_question(packet, reader):
    want(packet.extra <= 1, 'question: hops')
    want(packet.nonce and packet.asker, 'question: nonce or asker 0')
    want(packet.proof == 0, 'question: proof')
    want(packet.extra or packet.host == bytes(16), 'question: host, though not relayed')
    want(len(reader.data) == QUESTION_BYTES and not any(reader.rest()), 'question: padding')


BLOBS = {1: (4, 4), 2: (24, 24), 4: (32, 32), 5: (20, 20), 6: (9, 64)}


def is_address(backend, blob):
    """Whether a blob is one of its backend's: others are passed over, the record is good."""
    low, high = BLOBS.get(backend, (0, 64))
    if not low <= len(blob) <= high:
        return False
    if backend == 1:
        return blob[:2] == b'\1\0' and any(blob[2:])
    return backend != 2 or any(blob[:8]) and any(blob[8:])


def _read_record(packet, reader):
    packet.incarnation, packet.stamp, packet.identity, packet.context, n = reader.take('4QB')
    want(packet.incarnation, 'record: incarnation 0')
    want(1 <= n <= 8, 'record: n_addrs')
    packet.addrs = []
    for _ in range(n):
        backend, length = reader.take('BB')
        want(length <= 64, 'record: blob')
        packet.addrs.append((backend, reader.take(f'{length}s')[0]))
    want(not packet.nonce or not packet.asker, 'record: an answer with an asker')


def _read_withdrawn(packet, reader):
    packet.incarnation, = reader.take('Q')
    want(packet.incarnation, 'withdrawn: incarnation 0')
    want(not packet.nonce, 'withdrawn: nonce')
    want(not packet.proof, 'withdrawn: proof')


def _read_nobody(packet, _):
    want(packet.nonce and not packet.asker and not packet.proof, 'nobody: nonce, asker or proof')


RESOLVER = {QUESTION: _check_question, RECORD: _read_record, WITHDRAWN: _read_withdrawn,
            NOBODY: _read_nobody}


def decode_resolver(data):
    """The packet of a datagram of a resolver's source; `extra` is hops or definite."""
    reader, packet = Reader(data), Packet()
    packet.version, packet.type, packet.extra, zero, packet.crc, packet.nonce, packet.asker, packet.proof, \
        packet.host, packet.id = reader.take('4BI3Q16sQ')
    if packet.version != VERSION:
        raise Unknown(f'version {packet.version}')
    want(packet.type in RESOLVER and zero == 0, 'type, or not zero')
    want(packet.type in (QUESTION, NOBODY) and packet.extra <= 1 or packet.extra == 0, 'hops or definite')
    want(packet.type == QUESTION or packet.id, 'id 0')
    want(packet.type == QUESTION or packet.host == bytes(16), 'host')
    want(packet.crc == crc32c(data[:4] + bytes(4) + data[8:]), 'crc')
    RESOLVER[packet.type](packet, reader)
    want(packet.type == QUESTION or not reader.rest(), 'bytes after the end')
    return packet


def encode_resolver(packet):
    """The bytes of a resolver's packet."""
    tail = b''
    if packet.type == QUESTION:
        tail = bytes(QUESTION_BYTES - 56)
    elif packet.type == WITHDRAWN:
        tail = struct.pack('<Q', packet.incarnation)
    elif packet.type == RECORD:
        tail = struct.pack('<4QB', packet.incarnation, packet.stamp, packet.identity, packet.context,
                           len(packet.addrs))
        tail += b''.join(bytes([backend, len(blob)]) + blob for backend, blob in packet.addrs)
    head = struct.pack('<4B', VERSION, packet.type, packet.extra or 0, 0)
    rest = struct.pack('<3Q16sQ', packet.nonce or 0, packet.asker or 0, packet.proof or 0,
                       packet.host or bytes(16), packet.id or 0) + tail
    return head + struct.pack('<I', crc32c(head + bytes(4) + rest)) + rest


def show(packet):
    """One line about a packet, for logs."""
    name = NAMES[packet.type]
    if packet.type >= QUESTION:
        return f'{name} id {packet.id:x}'
    return f'{name} {packet.number} {len(packet.payload)} bytes flags {packet.flags:x}'
