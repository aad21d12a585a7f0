#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The first program of docs/python.md: a server, with "serve", and its client."""
import sys

import ripc

with ripc.Context() as ctx:
    if sys.argv[1:] == ['serve']:
        def greet(request: ripc.Message) -> bytes:
            return b'good morning, ' + bytes(request)

        with ctx.service('greeter') as service:
            print('serving', flush=True)
            ripc.serve(service, greet)
    else:
        with ctx.service() as service:
            reply = service.call('greeter', b'friend')
            print(bytes(reply).decode())
