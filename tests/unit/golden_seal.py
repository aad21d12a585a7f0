#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the checksum of each packet in golden.h anew, after its bytes were edited by hand.

The checksum is computed here by the text of docs/protocol.md (*Checksum*), not by the library.

usage: tests/unit/golden_seal.py [FILE]
"""
import os
import re
import sys

QUERY_LEN = 1100


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def checksum(lines):
    """
    The bytes of a macro's lines: the payload first, then the part before it with the field as zero.
    """
    prefix, payload, in_payload = b'', b'', False
    for text, comment in re.findall(r'"([0-9a-f ]*)"( /\*.*?\*/)?', lines):
        in_payload = in_payload or comment.strip() == '/* payload */'
        data = bytes.fromhex(text)
        if in_payload:
            payload += data
        else:
            prefix += data
    if prefix[1] == 0x20:
        prefix = prefix.ljust(QUERY_LEN, b'\0')
    return crc32c(payload + prefix[:4] + bytes(4) + prefix[8:])


def seal(macro):
    """One macro with its checksum: the last eight digits of its first line."""
    crc = checksum(macro.group(0)).to_bytes(4, 'little').hex()
    return re.sub(r'[0-9a-f]{8}(?=" /\* version)', crc, macro.group(0), count=1)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), 'golden.h')
    with open(path) as file:
        text = file.read()
    sealed = re.sub(r'#define GOLDEN_\w+ \\\n(?:\t".*\n)+', seal, text)
    with open(path, 'w') as file:
        file.write(sealed)


if __name__ == '__main__':
    main()
