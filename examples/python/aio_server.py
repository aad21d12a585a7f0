#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An asyncio server, and 1,000 clients that call it at the same time.

usage: aio_server.py [CLIENTS]
"""
import asyncio
import sys
import time

import ripc
from ripc import aio


async def double(request: ripc.Message) -> bytes:
    await asyncio.sleep(0.1)  # other clients get their replies meanwhile
    return bytes(request) * 2


async def main(clients: int) -> None:
    with ripc.Context() as server_ctx, ripc.Context() as client_ctx:
        async with aio.Service(server_ctx.service()) as server, \
                aio.Service(client_ctx.service()) as client:
            serving = asyncio.create_task(server.serve(double))
            began = time.monotonic()
            replies = await asyncio.gather(*(client.call(server.id, b'%d' % number, 60.0)
                                             for number in range(clients)))
            assert all(bytes(reply) == b'%d%d' % (number, number)
                       for number, reply in enumerate(replies))
            print(f'{clients} clients got replies in {time.monotonic() - began:.2f} s')
            serving.cancel()


if __name__ == '__main__':
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
