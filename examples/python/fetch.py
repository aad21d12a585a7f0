#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Fetches a file from examples/fileserver, and has a service compute its SHA-256 (digest.py).

usage: fetch.py FILESERVER PATH OUTPUT [DIGEST]     services by name

examples/fileproto.h has the bytes of requests and replies.
"""
import struct
import sys

import ripc

REQUEST = struct.Struct('<4sBBHQQ')  # "RFQ2", what, zero, length of the path, offset, most bytes
ANSWER = struct.Struct('<4sB3xQQQ')  # "RFA2", status, bytes, size of the file, version
GET, OK = 1, 0
PIECE = 64 << 20
PATIENCE_S = 30.0


class Piece:
    """A part of the file, where the library has put it."""

    def __init__(self, message: ripc.Message) -> None:
        magic, status, length, self.size, self.version = ANSWER.unpack(message[0])
        self.data = message[1] if len(message) == 2 else memoryview(b'')
        if magic != b'RFA2' or len(self.data) != length:
            raise ValueError('the server speaks another protocol')
        if status != OK:
            raise ValueError(f'the server refuses the file (status {status})')


def fetch_piece(service: ripc.Service, server: str, path: bytes, offset: int) -> Piece:
    request = REQUEST.pack(b'RFQ2', GET, 0, len(path), offset, PIECE) + path
    return Piece(service.call(server, request, PATIENCE_S))


def fetch(service: ripc.Service, server: str, path: str, output: str) -> int:
    offset, version = 0, None
    with open(output, 'wb') as file:
        while True:
            piece = fetch_piece(service, server, path.encode(), offset)
            if version not in (None, piece.version):
                raise ValueError('the file was changed meanwhile')
            file.write(piece.data)
            offset, version = offset + len(piece.data), piece.version
            if offset >= piece.size:
                return offset


def main() -> int:
    if len(sys.argv) not in (4, 5):
        print('usage: fetch.py FILESERVER PATH OUTPUT [DIGEST]', file=sys.stderr)
        return 2
    try:
        with ripc.Context() as ctx, ctx.service() as service:
            print(fetch(service, *sys.argv[1:4]), 'bytes')
            if len(sys.argv) == 5:
                with open(sys.argv[3], 'rb') as file:
                    print(bytes(service.call(sys.argv[4], file.read(), 30.0)).decode())
    except (OSError, ValueError) as error:
        print(f'fetch.py: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
