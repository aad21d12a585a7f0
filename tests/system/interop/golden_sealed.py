# SPDX-License-Identifier: BSD-3-Clause
"""The golden datagrams of tests/unit/golden_sealed.h are those that the text of docs/protocol.md yields, and are opened
by it; what is altered is refused.

usage: golden_sealed.py FILE [--write]    --write writes the file anew
"""
import re
import struct
import sys

import golden
import protocol

try:
    import sealed as s
except ImportError as absent:
    print(f'skipped: {absent} (apt-get install python3-cryptography)')
    sys.exit(77)

SECRET, AUTHORITY = bytes(range(32)), bytes(range(0xa0, 0xc0))
PRIVATE = bytes(range(0x20, 0x40)), bytes(range(0x40, 0x60))
EPHEMERAL = bytes(range(0x60, 0x80)), bytes(range(0x80, 0xa0))
CONTEXT = 0x1111111122222222, 0x3333333344444444
# The library's draws from a source that the C test makes repeatable: an index for each handshake,
# and another one for INIT with a proof; the responder's index; the address proof; the clock.
INDEX, INDEX_AGAIN, THEIR_INDEX = 0x50e183df, 0xd966b727, 0x60a09553
ADDRESS_PROOF, STAMP = 0x239d93f5cd2b3a61, 1000000000
COUNTER = 0x1ffffff, 0x102
# Names for the initiator's index, INDEX_AGAIN, the responder's index.
RESET, RESET_AGAIN, THEIR_RESET = 0xd2b33611aeec2c4d, 0xcdc857bdbd13095c, 0x9afba98532bf3183
PACKET = protocol.write(protocol.SHORT, 0x1122334455667788, 0x99aabbccddeeff00, 0x0102030405060708, 42,
                        payload=b'hello, world', flags=1 << 8)
PACKET = PACKET[:4] + bytes(4) + PACKET[8:]  # crc 0
SERVICE, PORT = 0x4711, 0x2801
DATAGRAMS = {'INIT', 'REPLY', 'THERE', 'BACK', 'EMPTY', 'PROOF', 'UNKNOWN'}


def keys_of(number, capability=None):
    authority = capability and s.authority_of(AUTHORITY)
    return s.Keys(PRIVATE[number], SECRET, authority, [capability] if capability else [])


def make_handshake(name, ours, theirs, aes, refused=False):
    """INIT, REPLY, and DATA in both directions."""
    init, noise = s.write_init(ours, theirs.public, EPHEMERAL[0], INDEX, CONTEXT[0], CONTEXT[1], ADDRESS_PROOF, STAMP, aes,
                               RESET)
    cipher = s.AES if aes else s.CHACHA
    reply, _ = s.write_reply(theirs, s.read_init(theirs, init), EPHEMERAL[1], THEIR_INDEX, cipher, refused, CONTEXT[1],
                             THEIR_RESET)
    made = {name + '_INIT': init, name + '_REPLY': reply}
    if not refused:
        split = s.read_reply(ours, noise, reply).split
        a = s.Session(cipher, split, True, INDEX, THEIR_INDEX)
        b = s.Session(cipher, split, False, THEIR_INDEX, INDEX)
        made.update({name + '_EMPTY': a.seal(b''), name + '_THERE': a.seal(PACKET, COUNTER[0]),
                     name + '_BACK': b.seal(PACKET, COUNTER[1])})
    return made


def make():
    """All values, by name."""
    public = [s.public_of(private) for private in PRIVATE]
    be = s.sign_capability(AUTHORITY, s.BE, 0, 2000000000, public[1])
    send = s.sign_capability(AUTHORITY, s.SEND, SERVICE, 2000000000, public[0])
    expired = s.sign_capability(AUTHORITY, s.BE | s.SEND, SERVICE, 1, public[0])
    made = {'SECRET': SECRET, 'INITIATOR': PRIVATE[0], 'RESPONDER': PRIVATE[1], 'FIRST': EPHEMERAL[0],
            'SECOND': EPHEMERAL[1], 'AUTHORITY': AUTHORITY, 'AUTHORITY_PUBLIC': s.authority_of(AUTHORITY),
            'CAPABILITY_BE': be, 'CAPABILITY_SEND': send, 'CAPABILITY_EXPIRED': expired, 'PACKET': PACKET}
    ours, theirs = keys_of(0), keys_of(1)
    made.update(make_handshake('PLAIN', ours, theirs, 0))
    made.update(make_handshake('AES', ours, theirs, 1))
    made.update(make_handshake('MAY', keys_of(0, send), keys_of(1, be), 1))
    made.update(make_handshake('REFUSED', keys_of(0, expired), keys_of(1, be), 0, True))
    for name, *rest in (('UNPROVEN', INDEX, 0, STAMP, RESET), ('PROVEN', INDEX_AGAIN, ADDRESS_PROOF, STAMP + 1, RESET_AGAIN)):
        index, proof, stamp, reset = rest
        made[name + '_INIT'] = s.write_init(ours, theirs.public, EPHEMERAL[0], index, *CONTEXT, proof, stamp, 0, reset)[0]
    made['PROOF'] = s.write_proof(theirs, s.read_init(theirs, made['UNPROVEN_INIT']), ADDRESS_PROOF)
    made['UNKNOWN'] = s.write_unknown(theirs, THEIR_INDEX, COUNTER[0], THEIR_RESET)
    where = s.address(struct.pack('<BBH', 1, 0, PORT + 1), theirs, CONTEXT[1])
    rest = protocol.record_rest(0x5151, 7, 8, CONTEXT[1], [(129, where)])
    made['RECORD'] = s.mark(theirs, protocol.write_resolver(protocol.RECORD, 9, 0, SERVICE, 10, rest=rest))
    numbers = {'CONTEXT_INITIATOR': CONTEXT[0], 'CONTEXT_RESPONDER': CONTEXT[1], 'COUNTER_THERE': COUNTER[0],
               'COUNTER_BACK': COUNTER[1], 'PRIVATE_ID': s.private_id(theirs.public, 0x123456)}
    return made, numbers


def text_of(name, data):
    lines = [data[at:at + 40].hex() for at in range(0, len(data), 40)]
    return f'#define GOLDEN_{name} \\\n' + ' \\\n'.join(f'\t"{line}"' for line in lines) + '\n'


def write(path, made, numbers):
    with open(path, 'w', encoding='utf-8') as file:
        file.write('/* SPDX-License-Identifier: BSD-3-Clause */\n/*\n * Golden datagrams with keys, in hex, made by '
                   'tests/system/interop/golden_sealed.py from the text of\n * docs/protocol.md.\n */\n'
                   '#ifndef GOLDEN_SEALED_H\n#define GOLDEN_SEALED_H\n\n')
        file.writelines(f'#define GOLDEN_{name} {value:#x}u\n' for name, value in numbers.items())
        file.writelines('\n' + text_of(name, data) for name, data in made.items())
        file.write('\n#endif\n')


def reader(name):
    """The key that opens a datagram of this name, and its sender's number. Raises Malformed."""
    ours, theirs = keys_of(0), keys_of(1)
    scenario, kind = name.rsplit('_', 1) if '_' in name else ('', name)
    if kind in ('PROOF', 'UNKNOWN'):
        return lambda data: (s.read_proof if kind == 'PROOF' else s.read_unknown)(ours, data)
    if kind == 'INIT':
        return lambda data: s.read_init(theirs, data)

    def handshake():
        made, _ = make()
        _, noise = s.write_init(keys_of(0, made['CAPABILITY_SEND'] if scenario == 'MAY' else
                                        made['CAPABILITY_EXPIRED'] if scenario == 'REFUSED' else None),
                                theirs.public, EPHEMERAL[0], INDEX, *CONTEXT, ADDRESS_PROOF, STAMP,
                                int(scenario in ('AES', 'MAY')), RESET)
        return made, noise

    made, _ = handshake()
    if kind == 'REPLY':
        return lambda data: s.read_reply(ours, handshake()[1], data)
    answer = s.read_reply(ours, handshake()[1], made[scenario + '_REPLY'])
    back = kind == 'BACK'
    return lambda data: s.Session(answer.cipher, answer.split, back, *((INDEX, THEIR_INDEX) if back else
                                                                       (THEIR_INDEX, INDEX))).unseal(data)


def is_opened(read, data):
    try:
        read(data)
    except s.Malformed:
        return False
    return True


def check_altered(name, data):
    """Not one bit less, more or other; of an X25519 key one bit means nothing, but the MAC knows it, too."""
    read = reader(name)
    altered = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:] for at in range(0, len(data), 3)]
    altered += [data[:-1], data + b'\0', data[:30], b'']
    taken = [each for each in altered if is_opened(read, each)]
    if not is_opened(read, data):
        print(f'{name}: refused')
    for each in taken[:3]:
        print(f'{name}: taken, though altered: {each.hex()}')
    return not taken and is_opened(read, data)


def main(path, *options):
    made, numbers = make()
    if options == ('--write',):
        write(path, made, numbers)
    kept = dict(golden.load(path))
    with open(path, encoding='utf-8') as file:
        kept_numbers = {name: int(value, 16) for name, value in re.findall(r'#define GOLDEN_(\w+) (0x\w+)u', file.read())}
    bad = [name for name, data in made.items() if kept.get('GOLDEN_' + name) != data]
    for name in bad:
        print(f'{name}: the text yields\n  {made[name].hex()} instead of\n  {kept.get("GOLDEN_" + name, b"").hex()}')
    bad += [name for name in set(kept) - {'GOLDEN_' + name for name in made}]
    bad += [name for name, value in numbers.items() if kept_numbers.get(name) != value]
    bad += [name for name, data in made.items() if name.rsplit('_')[-1] in DATAGRAMS and not check_altered(name, data)]
    signed = s.is_signed(s.authority_of(AUTHORITY), made['CAPABILITY_BE'])
    record = protocol.decode_resolver(s.unmark(keys_of(0), made['RECORD']))
    print(f'golden: {len(made)} values with keys, {len(bad)} wrong: {" ".join(bad)}')
    return 1 if bad or not signed or record.addrs[0][0] != 129 else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
