# SPDX-License-Identifier: BSD-3-Clause
"""Every packet of golden.h is valid by the text, and encoded again gives the same bytes."""
import re
import sys

import protocol


def load(path):
    """Name and bytes of each packet of golden.h."""
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'/\*.*?\*/', ' ', file.read(), flags=re.S).replace('\\\n', ' ')
    for name, value in re.findall(r'#define (GOLDEN_\w+)((?:\s*"[^"]*")+)', text):
        yield name, bytes.fromhex(''.join(re.findall(r'"([^"]*)"', value)))


def is_refused(decode, data):
    try:
        decode(data)
    except protocol.Malformed:
        return True
    return False


def seal(data):
    """The same with the right checksum, if all of it is covered in its order."""
    data = data[:4] + bytes(4) + data[8:]
    return data[:4] + protocol.crc32c(data).to_bytes(4, 'little') + data[8:]


def check_refused(name, data, decode, packet):
    """Truncated, longer or altered datagrams must be refused; tells which are not."""
    altered = [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:]
               for at in range(min(len(data), 160)) for bit in range(8)]
    altered += [data[:cut] for cut in range(min(len(data), 160))] + [data + b'\0']
    if not packet.payload and packet.type not in (protocol.SHORT, protocol.ANNOUNCE, protocol.DATA):
        altered += [seal(data[:cut]) for cut in range(40, min(len(data), 160))]
        altered.append(seal(data + b'\0'))
    taken = [each for each in altered if not is_refused(decode, each)]
    for each in taken[:3]:
        print(f'{name}: taken, though altered: {each.hex()}')
    return not taken


def check(name, data):
    """Whether the packet is valid; tells why not."""
    if data[1] == protocol.QUERY:
        data += bytes(protocol.QUERY_BYTES - len(data))
    resolver = data[1] >= protocol.QUERY
    decode = protocol.decode_resolver if resolver else protocol.decode
    try:
        packet = decode(data)
        again = protocol.encode_resolver(packet) if resolver else protocol.encode(packet)
    except protocol.Malformed as why:
        print(f'{name}: malformed: {why}')
        return False
    if not all(protocol.is_address(*addr) for addr in packet.addrs or ()):
        print(f'{name}: an address that is none')
        return False
    if again != data:
        print(f'{name}: encoded as\n  {again.hex()} instead of\n  {data.hex()}')
    return again == data and check_refused(name, data, decode, packet)


def main(path):
    packets = list(load(path))
    bad = [name for name, data in packets if not check(name, data)]
    print(f'golden: {len(packets)} packets, {len(bad)} invalid')
    return 1 if bad or len(packets) != 36 else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
