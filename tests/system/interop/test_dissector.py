# SPDX-License-Identifier: BSD-3-Clause
"""Wireshark's view of each kind of packet: what the text names, and nothing else, is shown.

The golden packets, and records with each kind of address, are read by tshark with tools/wireshark/ripc.lua.

usage: test_dissector.py PROTOCOL_MD GOLDEN_H GOLDEN_SEALED_H
"""
import random
import re
import struct
import sys

import dissector
import golden
import protocol as p

SKIP = 77
# The tables of docs/protocol.md that lay out what goes by UDP, in their order: by section and third column, the
# group of the dissector's fields. None: what Wireshark does not get to see in UDP, or sealed.
TABLES = [
    ('The store', 'field', None),             # between a context and ZooKeeper, by TCP
    ('Header', 'field', ''),
    ('Extensions', 'field', 'hello'), ('Extensions', 'field', 'ack'), ('Extensions', 'field', 'returns'),
    ('Extensions', 'field', 'call'),
    ('Types', 'field', 'announce'), ('Types', 'field', 'data'), ('Types', 'field', 'pull'),
    ('Types', 'field', 'stream'),
    ('Resolver packets', 'field', 'resolver'),
    ('Sealed datagrams', 'field', 'sealed'), ('Sealed datagrams', 'field', 'sealed'),
    ('Sealed datagrams', 'INIT', 'sealed'), ('Sealed datagrams', 'REPLY', 'sealed'),
    ('Sealed datagrams', 'payload of message 1', None), ('Sealed datagrams', 'payload of message 2', None),
    ('Sealed datagrams', 'PROOF', 'sealed'), ('Sealed datagrams', 'UNKNOWN', 'sealed'),
    ('Sealed datagrams', 'field', None),      # capabilities, in those payloads
    ('Shared memory', 'field', None), ('Shared memory', 'field', None), ('Shared memory', 'field', None),
    ('Shared memory', 'field', None), ('Shared memory', 'field', None),
    ('InfiniBand and RoCE', 'field', 'blob.verbs'),
    ('InfiniBand and RoCE', 'field', None), ('InfiniBand and RoCE', 'field', None),
    ('iWARP', 'field', 'blob.rdmacm'), ('iWARP', 'field', None), ('iWARP', 'field', None),
    ('libfabric', 'field', 'blob.ofi'), ('libfabric', 'field', None),
]
# Shown only where several packets belong together; tests/system/interop/test_captures.py sees them.
LINKS = {'ripc.announced_in', 'ripc.complete_in'}
# 44818 is the port of EtherNet/IP, too.
RESOLVER, CONTEXT, MANY = (15511, 40000), (40001, 44818), (40001, 15512)


def tables(path):
    """Section, third column and field names of each table that has offsets."""
    section, names = '', None
    with open(path, encoding='utf-8') as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
            if line.startswith('#'):
                section = line.strip('# \n')
            if not line.startswith('|'):
                names = None
            elif cells[0] == 'offset':
                names = []
                yield section, cells[2], names
            elif names is not None and '---' not in cells[0]:
                names.append(cells[2])


def flat(names):
    """A line of a table may lay out several numbers."""
    return {part for name in names for part in ([name] if name == 'hops, definite' else name.split(', '))} - {'-', 'addr'}


def missing_names(path, fields):
    found = list(tables(path))
    assert [row[:2] for row in found] == [row[:2] for row in TABLES], 'docs/protocol.md has other tables'
    for (section, _, names), (_, _, group) in zip(found, TABLES):
        prefix = 'ripc.' + (group + '.' if group else '')
        shown = {name for abbr, name in fields.items() if abbr.rpartition('.')[0] + '.' == prefix}
        for name in sorted(flat(names) - shown) if group is not None else ():
            yield f'{section}: {name}'


def records():
    """One record with an address of each kind, bare and sealed."""
    key = bytes(range(32)) + struct.pack('<Q', 7)
    blobs = {1: b'\1\0\x01\x28', 2: bytes(range(24)), 4: b'\1\3\5\0' + bytes(12) + bytes(range(16)),
             5: b'\1\1\x01\x28' + bytes(10) + b'\xff\xff\x0a\0\0\1', 6: b'\1\4\3\0' + bytes(4) + b'a:b'}
    for more, tail in ((0, b''), (128, key)):
        rest = p.record_rest(3, 4, 5, 6, [(number + more, blob + tail) for number, blob in blobs.items()])
        yield 'RECORD', RESOLVER, p.write_resolver(p.RECORD, 1, id=2, proof=9, rest=rest)


def golden_packets(path, sealed_path):
    """Type, ports and bytes."""
    for name, data in golden.load(path):
        if data[1] == p.QUERY:
            data += bytes(p.QUERY_BYTES - len(data))
        yield p.NAMES[data[1]], RESOLVER if data[1] >= p.QUERY else CONTEXT, data
    for name, data in golden.load(sealed_path):
        kind = name.split('_')[-1]
        if data[0] == 0x92:
            yield 'DATA' if kind in ('THERE', 'BACK', 'EMPTY') else kind, CONTEXT, data
        elif kind == 'RECORD':
            yield kind, RESOLVER, data


def calls():
    """A request of two items that is announced with all its bytes, the error that answers it, and shorts to a group, one
    of them to many."""
    body = p.ANNOUNCE_PART.pack(5, 1, 2, 5, p.crc32c(b'abcde'), 0, 1, 0) + struct.pack('<QQ', 2, 3)
    yield 'ANNOUNCE', CONTEXT, p.write(p.ANNOUNCE, 1, 2, 3, 7, body, b'abcde', flags=p.LAST, lends=9, call=(1, 1))
    yield 'SHORT', CONTEXT, p.write(p.SHORT, 2, 1, 4, 1, b'', b'', flags=1 << 8, replies=9, call=(3, 2))
    yield 'SHORT', CONTEXT, p.write(p.SHORT, 2, 1, 4, 2, b'', b'x', flags=1 << 8, lends=0xff << 56, call=(4, 0))
    yield 'SHORT', MANY, p.write(p.SHORT, 2, 0xff << 56, 4, 3, b'', b'x', flags=1 << 8, lends=0xff << 56, call=(4, 0))


def check_types(packets):
    """Each datagram is decoded, whole, as its type; no field is wrong."""
    kinds = {**p.NAMES, **{1: 'INIT', 2: 'REPLY', 3: 'PROOF', 4: 'DATA', 5: 'UNKNOWN'}}
    rows = dissector.rows([(*ports, data) for _, ports, data in packets],
                          ('ripc.type', 'ripc.resolver.type', 'ripc.sealed.kind', '_ws.expert.message'))
    for (name, ports, data), (protocols, kind, found, sealed, said) in zip(packets, rows):
        shown = kinds[int(sealed[0])] if sealed else p.NAMES[int((kind or found or ['0'])[0])]
        bad = [text for text in said if re.match('malformed|wrong checksum|another version|flags', text)]
        assert 'ripc' in protocols[0] and shown == name and not bad, f'{name} is {shown}: {bad}: {data.hex()}'


def check_fields(packets, fields):
    """Each field is used, and so is each extension's."""
    shown = set(re.findall(r'<field name="(ripc\.[^"]+)"', dissector.whole(
        [(*ports, data) for _, ports, data in packets])))
    unused = sorted(set(fields) - shown - LINKS - {abbr for abbr in fields if abbr.startswith('ripc.expert.')})
    assert not unused, f'no packet shows {unused}'


def check_altered(packets):
    """An altered byte is a wrong checksum, a cut packet is malformed, and no bytes upset the script."""
    name, ports, data = packets[0]
    altered = data[:-1] + bytes([data[-1] ^ 1])
    rows = dissector.rows([(*ports, altered), (*ports, data), (*ports, data), (*ports, data[:50] + b'')],
                          ('_ws.expert.message',))
    assert 'wrong checksum' in rows[0][1][0], rows[0]
    assert not rows[1][1] and 'sent again: first in frame 2' in rows[2][1], rows
    announce = next(packet for packet in packets if packet[0] == 'ANNOUNCE')
    assert 'malformed' in dissector.rows([(*CONTEXT, announce[2][:60])], ('_ws.expert.message',))[0][1][0]
    dice, hostile = random.Random(24), []
    for _ in range(1500):
        _, ports, data = dice.choice(packets)
        data = bytearray(data[:dice.randrange(16, len(data) + 1)] if dice.random() < 0.3 else data)
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(2, len(data))] = dice.choice((0, 1, 127, 255, dice.randrange(256)))
        hostile.append((*ports, bytes(data)))
    dissector.rows(hostile, ('ripc.type',))
    # One piece that the kernel would cut into three datagrams
    one = p.write(p.DATA, 1, 2, 3, 4, struct.pack('<QI', 0, 0), b'x' * 1000)
    rows = dissector.rows([(*CONTEXT, one + one + one[:500])], ('ripc.type', '_ws.expert.message'))
    assert rows[0][1] == ['3'] * 3 and '3 packets in one piece' in rows[0][2], rows


def check_many(packets):
    """Multicast datagrams are shown as such; other datagrams to the port belong to no service."""
    many = next(data for _, ports, data in packets if ports == MANY)
    others = [b'', b'\2', many[:39], b'\3' + many[1:], many[:1] + b'\x0f' + many[2:], many[:16] + bytes(8) + many[24:]]
    rows = dissector.rows([(*MANY, many), *((40003 + i, MANY[1], data) for i, data in enumerate(others))],
                          ('ripc.dst', 'ripc.lends.id', 'ripc.call.kind', 'ripc.type'))
    assert rows[0][1:] == [[hex(0xff << 56)]] * 2 + [['4'], ['1']], rows[0]
    assert not any('ripc' in protocols[0] for protocols, *_ in rows[1:]), rows


def main(text, plain, sealed):
    if not dissector.is_here():
        print('skipped: there is no tshark (apt-get install tshark)')
        return SKIP
    fields = dissector.registered()
    packets = [*golden_packets(plain, sealed), *records(), *calls()]
    missing = list(missing_names(text, fields))
    assert not missing, f'named in docs/protocol.md, but not by the dissector: {missing}'
    check_types(packets)
    check_fields(packets, fields)
    check_altered(packets)
    check_many(packets)
    print(f'dissector: {len(fields)} fields, {len(packets)} packets')
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
