#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
A service that replies with the SHA-256 of what it is sent. Ctrl-C ends it.

usage: digest.py NAME
"""
import hashlib
import sys

import ripc


def digest(request: ripc.Message) -> bytes:
    """The bytes are read where the library has put them."""
    return hashlib.sha256(request[0]).hexdigest().encode()


def main() -> int:
    if len(sys.argv) != 2:
        print('usage: digest.py NAME', file=sys.stderr)
        return 2
    with ripc.Context() as ctx, ctx.service(sys.argv[1]) as service:
        try:
            print('serving', sys.argv[1], flush=True)
            ripc.serve(service, digest)
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == '__main__':
    sys.exit(main())
