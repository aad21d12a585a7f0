# SPDX-License-Identifier: BSD-3-Clause
"""Packets, written from docs/protocol.md alone, the sources unread: strict readers, and writers.

Bytes that the text calls malformed raise Malformed, an unknown version or flag Unknown. Decoded
packets are encoded again to the same bytes, as a packet has one encoding only.
"""
import struct
from types import SimpleNamespace as Bag

SHORT, ANNOUNCE, DATA, PULL, ANSWER, CANCEL, HELLO_ONLY, RETRY, ECHO, ECHO_REPLY, GONE, ABORT, STREAM, HEARD = range(1, 15)
HELLO, ACK, LENDS, REPLIES, LAST, RETURNS, ORDERED, CALL = (1 << bit for bit in range(8))
QUERY, RECORD, WITHDRAWN, NOBODY, DIGEST = range(32, 37)
NAMES = dict(enumerate('SHORT ANNOUNCE DATA PULL ANSWER CANCEL HELLO_ONLY RETRY ECHO ECHO_REPLY GONE ABORT STREAM HEARD'.split(), 1))
NAMES.update({QUERY: 'QUERY', RECORD: 'RECORD', WITHDRAWN: 'WITHDRAWN', NOBODY: 'NOBODY', DIGEST: 'DIGEST'})
QUERY_BYTES = 1100
BLOBS = {1: (4, 4), 2: (24, 24), 4: (32, 32), 5: (20, 20), 6: (9, 64), 129: (44, 44)}  # lengths by backend
REPLIES_FROM = 2 ** 63  # numbers above are those of replies
ECANCELED, EBADMSG, EMSGSIZE, ENOBUFS, ESHUTDOWN, ETIMEDOUT = 125, 74, 90, 105, 108, 110

HELLO_IN = {SHORT, ANNOUNCE, DATA, PULL, ANSWER, CANCEL, HELLO_ONLY, ECHO, ECHO_REPLY, STREAM, HEARD}
ALLOWED = {HELLO: HELLO_IN, ACK: HELLO_IN - {ANSWER} | {GONE}, LENDS: {SHORT, ANNOUNCE}, REPLIES: {SHORT, ANNOUNCE},
           LAST: {ANNOUNCE, DATA}, RETURNS: {SHORT, ANNOUNCE}, ORDERED: {ANNOUNCE}, CALL: {SHORT, ANNOUNCE}}
NUMBERED = {SHORT, ANNOUNCE, DATA, PULL, ANSWER, CANCEL}
HEADER = struct.Struct('<BBHIQQQQ')
HELLO_PART, ACK_PART = struct.Struct('<QQQQQII'), struct.Struct('<QIQI')
ANNOUNCE_PART, DATA_PART, PULL_PART = struct.Struct('<QQIIIIII'), struct.Struct('<QI'), struct.Struct('<QQIIII')
RESOLVE = struct.Struct('<BBBBIQQQ16sQ')


def is_of_reply(number):
    return number > REPLIES_FROM


def is_reply(call):
    """Is this the extension CALL of a reply?"""
    return bool(call) and call[0] in (2, 3)


class Malformed(Exception):
    """To be dropped."""


class Unknown(Malformed):
    """To be answered ABORT."""


def table():
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        rows.append(byte)
    return rows


TABLE = table()


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def siphash(key, data):
    """SipHash-2-4."""
    mask = 2 ** 64 - 1
    k0, k1 = struct.unpack('<QQ', key)
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573]

    def turn(x, n):
        return (x << n | x >> 64 - n) & mask

    def rounds(n):
        for _ in range(n):
            v[0] = v[0] + v[1] & mask
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = v[2] + v[3] & mask
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3] & mask
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1] & mask
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    whole = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack('<Q', whole):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def name_id(name):
    return siphash(bytes(16), name.encode()) or 1


def group_id(name):
    return name_id(name) | 0xff << 56


def want(right, why):
    if not right:
        raise Malformed(why)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, part):
        part = struct.Struct(part) if isinstance(part, str) else part
        want(self.at + part.size <= len(self.data), 'short')
        self.at += part.size
        return part.unpack_from(self.data, self.at - part.size)


def is_group(service):
    """Whether the ID is that of a group."""
    return service >> 56 == 0xff


def read_hello(r):
    token, service, context, to_service, proof, unasked, zero = r.take(HELLO_PART)
    want(token and service and context and to_service and not zero, 'hello')
    want(not is_group(service) and not is_group(to_service), 'hello of a group')
    return Bag(token=token, service=service, context=context, to_service=to_service, proof=proof, unasked=unasked)


def read_ack(r):
    number, status, also, echo = r.take(ACK_PART)
    want(number and status < 4096, 'ack')
    return Bag(number=number, status=status, also=also, echo=echo)


def read_returns(r):
    n, zero = r.take('<II')
    want(1 <= n <= 8 and not zero, 'returns')
    return [r.take('<QQQ') for _ in range(n)]


def read_call(p, r):
    kind, value = r.take('<II')
    want(1 <= kind <= 4, 'call')
    want(p.lends if kind in (1, 4) else p.replies, 'call without ID')
    want(kind != 4 or is_group(p.lends) and not p.flags & (RETURNS | REPLIES), 'to a group')
    want({1: value <= 1, 3: 1 <= value <= 4095, 4: p.type == SHORT or not value}.get(kind, not value), 'call value')
    return kind, value


def read_extensions(p, r):
    for flag, types in ALLOWED.items():
        want(not p.flags & flag or p.type in types, 'flag')
    want(not p.flags & RETURNS or p.flags & LENDS, 'returns without lends')
    p.hello = read_hello(r) if p.flags & HELLO else None
    p.ack = read_ack(r) if p.flags & ACK else None
    p.lends = r.take('<Q')[0] if p.flags & LENDS else None
    p.replies = r.take('<Q')[0] if p.flags & REPLIES else None
    p.returns = read_returns(r) if p.flags & RETURNS else None
    p.previous = r.take('<Q')[0] if p.flags & ORDERED else None
    want(p.previous is None or p.previous < p.number, 'order')
    p.call = read_call(p, r) if p.flags & CALL else None


def read_announce(p, r):
    p.total, p.oldest, n, p.unasked, p.sum, p.keys, p.stamp, p.echo = r.take(ANNOUNCE_PART)
    want(1 <= n <= 64 and p.keys <= 4, 'announce')
    want(p.oldest < 2 ** 64 - 64, 'oldest')
    p.lengths = list(r.take(f'<{n}Q'))
    p.places = [r.take('<QQ') for _ in range(n)] if p.keys in (1, 2, 4) else None
    payload = len(r.data) - r.at
    want(sum(p.lengths) == p.total and payload <= min(p.unasked, p.total), 'announce lengths')
    want(p.flags & LAST or not p.sum, 'sum without last')
    want(p.keys != 3 or p.flags & REPLIES, 'keys 3')
    want(p.keys != 4 or not p.flags & LAST, 'keys 4')


def read_pull(p, r):
    p.have, p.limit, n, p.busy, p.stamp, p.echo = r.take(PULL_PART)
    want(n <= 48 and p.busy <= 2, 'pull')
    p.holes = [r.take('<QQ') for _ in range(n)]
    ends = [0] + [end for _, end in p.holes]
    want(all(before <= start < end for before, (start, end) in zip(ends, p.holes)), 'holes')


def read_body(p, r):
    if p.type == SHORT:
        want(1 <= p.flags >> 8 <= 64, 'items')
        p.lengths = list(r.take(f'<{p.flags >> 8}H')) if p.flags >> 8 > 1 else [len(r.data) - r.at]
        want(sum(p.lengths) == len(r.data) - r.at, 'short lengths')
    elif p.type == ANNOUNCE:
        read_announce(p, r)
    elif p.type == DATA:
        p.offset, p.sum = r.take(DATA_PART)
        want(p.offset + len(r.data) - r.at < 2 ** 64, 'wraps')
    elif p.type == PULL:
        read_pull(p, r)
    elif p.type == ANSWER:
        p.answer = read_ack(r)
        want(p.answer.number == p.number, 'answer')
    elif p.type == CANCEL:
        p.oldest, = r.take('<Q')
        want(p.oldest < 2 ** 64 - 64, 'oldest')
    elif p.type in (ECHO, ECHO_REPLY):
        p.nonce, p.stamp = r.take('<QQ')
    elif p.type in (RETRY, GONE, ABORT):
        p.value, = r.take('<Q')
    elif p.type in (STREAM, HEARD):
        p.stream = r.take('<QQQ')
        want(p.stream[0] >> 56 == 0xff and p.stream[1] and (p.stream[2] or p.type == HEARD), 'stream')


def decode(data, has_crc=True):
    """
    The contents of a datagram, or Malformed, or Unknown. Where no byte is altered on the way there
    is no crc.
    """
    r = Reader(data)
    p = Bag(addrs=None, payload=b'')
    p.version, p.type, p.flags, p.crc, p.src, p.dst, p.token, p.number = r.take(HEADER)
    if p.type == ABORT:
        want(not p.flags, 'flag')
    elif p.version != 2 or p.flags >> 8 and p.type != SHORT:
        raise Unknown('version or flag')
    want(1 <= p.type <= 14, 'type')
    want(p.type == ABORT or p.src and p.dst, 'src or dst')
    want(p.type not in NUMBERED or p.number, 'number 0')
    want(p.type not in (HELLO_ONLY, ECHO, ECHO_REPLY, STREAM, HEARD) or not p.number, 'number')
    read_extensions(p, r)
    read_body(p, r)
    want(p.type in (SHORT, ANNOUNCE, DATA) or r.at == len(data), 'rest')
    p.payload = data[r.at:]
    want(not has_crc or crc32c(p.payload + data[:4] + bytes(4) + data[8:r.at]) == p.crc, 'crc')
    return p


def decode_many(data):
    """The contents of a datagram to many members of a group."""
    p = decode(data)
    want(p.type == SHORT and p.call and p.call == (4, 0) and p.lends == p.dst, 'to many')
    want(p.token and p.number & 0xffffffff and not p.flags & (HELLO | ACK), 'token, number or flags to many')
    return p


def write(type, src, dst, token, number, body=b'', payload=b'', flags=0, version=2, **parts):
    """A datagram; the parts are values of extensions."""
    ext = b''
    if parts.get('hello'):
        flags |= HELLO
        ext += HELLO_PART.pack(*parts['hello'], 0)
    if parts.get('ack'):
        flags |= ACK
        ext += ACK_PART.pack(*parts['ack'])
    for name, flag in (('lends', LENDS), ('replies', REPLIES)):
        if parts.get(name) is not None:
            flags |= flag
            ext += struct.pack('<Q', parts[name])
    if parts.get('returns'):
        flags |= RETURNS
        ext += struct.pack('<II', len(parts['returns']), 0) + b''.join(struct.pack('<QQQ', *x) for x in parts['returns'])
    if parts.get('previous') is not None:
        flags |= ORDERED
        ext += struct.pack('<Q', parts['previous'])
    if parts.get('call'):
        flags |= CALL
        ext += struct.pack('<II', *parts['call'])
    prefix = HEADER.pack(version, type, flags, 0, src, dst, token, number) + ext + body
    return prefix[:4] + struct.pack('<I', crc32c(payload + prefix)) + prefix[8:] + payload


def encode(p):
    """The packet again, from what was read: a packet has one encoding only."""
    body, hello, ack = b'', None, None
    if p.hello:
        hello = (p.hello.token, p.hello.service, p.hello.context, p.hello.to_service, p.hello.proof, p.hello.unasked)
    if p.ack:
        ack = (p.ack.number, p.ack.status, p.ack.also, p.ack.echo)
    if p.type == SHORT and len(p.lengths) > 1:
        body = struct.pack(f'<{len(p.lengths)}H', *p.lengths)
    elif p.type == ANNOUNCE:
        body = ANNOUNCE_PART.pack(p.total, p.oldest, len(p.lengths), p.unasked, p.sum, p.keys, p.stamp, p.echo)
        body += struct.pack(f'<{len(p.lengths)}Q', *p.lengths) + b''.join(struct.pack('<QQ', *x) for x in p.places or ())
    elif p.type == DATA:
        body = DATA_PART.pack(p.offset, p.sum)
    elif p.type == PULL:
        body = PULL_PART.pack(p.have, p.limit, len(p.holes), p.busy, p.stamp, p.echo)
        body += b''.join(struct.pack('<QQ', *x) for x in p.holes)
    elif p.type == ANSWER:
        body = ACK_PART.pack(p.answer.number, p.answer.status, p.answer.also, p.answer.echo)
    elif p.type == CANCEL:
        body = struct.pack('<Q', p.oldest)
    elif p.type in (ECHO, ECHO_REPLY):
        body = struct.pack('<QQ', p.nonce, p.stamp)
    elif p.type in (RETRY, GONE, ABORT):
        body = struct.pack('<Q', p.value)
    elif p.type in (STREAM, HEARD):
        body = struct.pack('<QQQ', *p.stream)
    return write(p.type, p.src, p.dst, p.token, p.number, body, p.payload, p.flags & (LAST | 0xff00), p.version,
                 hello=hello, ack=ack, lends=p.lends, replies=p.replies, returns=p.returns, previous=p.previous, call=p.call)


def write_resolver(type, nonce, asker=0, id=0, proof=0, third=0, host=bytes(16), rest=b''):
    data = RESOLVE.pack(2, type, third, 0, 0, nonce, asker, proof, host, id) + rest
    if type == QUERY:
        data += bytes(QUERY_BYTES - len(data))
    return data[:4] + struct.pack('<I', crc32c(data)) + data[8:]


def record_rest(incarnation, stamp, identity, context, addresses):
    return struct.pack('<QQQQB', incarnation, stamp, identity, context, len(addresses)) + b''.join(
        bytes([backend, len(blob)]) + blob for backend, blob in addresses)


def read_record(p, r):
    p.incarnation, p.stamp, p.identity, p.context, n = r.take('<QQQQB')
    want(1 <= n <= 8 and p.incarnation, 'record')
    want(not is_group(p.id) or p.stamp and not is_group(p.stamp), 'member')
    p.addrs = []
    for _ in range(n):
        backend, length = r.take('<BB')
        want(length <= 104, 'blob')
        p.addrs.append((backend, r.take(f'{length}s')[0]))


def digest_bits(named):
    """The bits of the IDs that a digest names."""
    bits = bytearray(64)
    for id, _ in named:
        low, high = struct.unpack('>II', struct.pack('<Q', id))
        bit = ((low ^ high) * 0x9e3779b1 & 0xffffffff) >> 23
        bits[bit // 8] |= 1 << bit % 8
    return bytes(bits)


def decode_resolver(data):
    want(len(data) <= QUERY_BYTES, 'long')
    r = Reader(data)
    p = Bag(addrs=None, payload=b'')
    version, p.type, p.third, zero, crc, p.nonce, p.asker, p.proof, p.host, p.id = r.take(RESOLVE)
    want(version == 2 and QUERY <= p.type <= DIGEST and not zero, 'kind')
    want(crc32c(data[:4] + bytes(4) + data[8:]) == crc, 'crc')
    want(p.third <= (p.type in (QUERY, NOBODY)) or p.type == DIGEST, 'third byte')
    want(p.type == RECORD or not p.proof, 'proof')
    want(p.type == QUERY and p.third or p.host == bytes(16), 'host')
    want(p.type in (QUERY, DIGEST) or p.id, 'id')
    if p.type == QUERY:
        want(p.nonce and p.asker, 'query')
        want(len(data) == QUERY_BYTES and not any(data[r.at:]), 'padding')
        return p
    if p.type == NOBODY or p.type == RECORD and p.nonce:
        want(p.nonce and not p.asker, 'answer')
    if p.type == DIGEST:
        want(not p.nonce, 'nonce')
        r.at, p.id = 48, None
        bits, named = r.take(f'<64s{16 * p.third}s')
        p.named = list(struct.iter_unpack('<QQ', named))
        want(p.named and all(id and incarnation for id, incarnation in p.named), 'named')
        want(bits == digest_bits(p.named), 'bits')
    if p.type == WITHDRAWN:
        want(not p.nonce, 'nonce')
        p.incarnation, = r.take('<Q')
        want(p.incarnation, 'incarnation')
    if p.type == RECORD:
        read_record(p, r)
    want(r.at == len(data), 'rest')
    return p


def encode_resolver(p):
    """The resolver's packet again."""
    rest = b''
    if p.type == WITHDRAWN:
        rest = struct.pack('<Q', p.incarnation)
    elif p.type == RECORD:
        rest = record_rest(p.incarnation, p.stamp, p.identity, p.context, p.addrs)
    elif p.type == DIGEST:
        bits = digest_bits(p.named)
        rest = bits[8:] + b''.join(struct.pack('<QQ', *each) for each in p.named)
        p.id, = struct.unpack('<Q', bits[:8])
    return write_resolver(p.type, p.nonce, p.asker, p.id, p.proof, p.third, p.host, rest)


def is_address(backend, blob):
    """Whether the text knows such a blob."""
    low, high = BLOBS.get(backend, (1, 0))
    return low <= len(blob) <= high and (backend != 1 or blob[:2] == b'\1\0' and blob[2:] != b'\0\0')
