# SPDX-License-Identifier: BSD-3-Clause
"""asyncio: many clients of one server, cancelling, closing, and messages of all kinds."""
import asyncio
import os
import resource
import subprocess
import sys
import unittest

import ripc
from ripc import aio

CLIENTS = 200 if 'RIPC_TEST_SANITIZED' in os.environ else 1000
BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../bench/compare/python_clients')


def more_descriptors():
    """As many as this process may have: a thousand services take two each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Loop(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which makes each step slow
        self.ctx, self.other = (ripc.Context(backends='shm', interfaces='lo') for _ in '12')
        self.a, self.b = aio.Service(self.ctx.service()), aio.Service(self.other.service())

    async def asyncTearDown(self):
        self.a.close()
        self.b.close()
        self.ctx.close()
        self.other.close()

    async def send_short(self, data):
        """A network that takes no more now takes it later."""
        while True:
            try:
                self.a.send_short(self.b.id, data)
                return
            except ripc.Again:
                await asyncio.sleep(0.001)

    async def test_async_for(self):
        for number in range(200):
            await self.send_short(b'%d' % number)
            message = await asyncio.wait_for(self.b.receive(), 20)
            self.assertEqual((message.kind, bytes(message)), (ripc.SHORT, b'%d' % number))

        async def send():
            for number in range(50):
                await self.a.send_long(self.b.id, b'%d' % number)
            self.b.raw.drain()
        sending = asyncio.create_task(send())
        got = [bytes(message) async for message in self.b]
        await sending
        self.assertEqual(sorted(got), sorted(b'%d' % number for number in range(50)))

    async def test_a_thousand_clients(self):
        async def handler(request):
            await asyncio.sleep(0.01)
            return bytes(request)[::-1]
        serving = asyncio.create_task(self.b.serve(handler, limit=100))

        async def client(number):
            text = b'client %d' % number
            for _ in range(2):
                self.assertEqual(bytes(await self.a.call(self.b.id, text, 60.0)), text[::-1])
        await asyncio.gather(*map(client, range(CLIENTS)))
        self.assertEqual(self.other.stats()['long_received'], 2 * CLIENTS)
        self.assertEqual(self.ctx.stats()['calls_replied'], 2 * CLIENTS)
        self.b.close()
        await asyncio.wait_for(serving, 20)

    async def test_a_thousand_services(self):
        more_descriptors()
        raw = self.ctx.services([ripc.id_from_name(f'aio-{id(self)}-{number}')
                                 for number in range(CLIENTS)])
        services = [aio.Service(service) for service in raw]
        serving = asyncio.create_task(self.b.serve(lambda request: request))

        async def client(service):
            return bytes(await service.call(self.b.id, b'x', 60.0))
        answers = await asyncio.gather(*map(client, services))
        self.assertEqual(answers, [b'x'] * CLIENTS)
        serving.cancel()
        for service in services:
            service.close()

    async def test_others_run_meanwhile(self):
        serving = asyncio.create_task(self.b.serve(lambda request: request))
        turns = 0

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)
        counting = asyncio.create_task(count())
        for _ in range(500):
            await self.a.call(self.b.id, b'x', 20.0)
        self.assertGreater(turns, 5)
        counting.cancel()
        serving.cancel()

    async def test_errors(self):
        def handler(request):
            raise PermissionError(13, 'no')
        serving = asyncio.create_task(self.b.serve(handler))
        with self.assertRaises(ripc.Remote) as raised:
            await self.a.call(self.b.id, b'x', 20.0)
        self.assertEqual(raised.exception.errno, 13)
        with self.assertRaises(ripc.NotFound):
            await self.a.send_long('nobody-has-this-name', b'x', 20.0)
        serving.cancel()

    async def test_a_call_is_cancelled(self):
        call = asyncio.create_task(self.a.call(self.b.id, b'x', 60.0))
        await self.b.receive()
        call.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await call
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.a.call(self.b.id, b'x', 60.0), 0.05)
        while self.ctx.stats()['calls_open']:
            await asyncio.sleep(0.01)

    async def test_more_than_may_be_open(self):
        async def answer():
            async for request in self.b:
                request.reply(b'')
        calls = [asyncio.create_task(self.a.call(self.b.id, b'x', 60.0)) for _ in range(600)]
        await asyncio.sleep(0)
        answering = asyncio.create_task(answer())
        await asyncio.gather(*calls)
        answering.cancel()

    async def test_close_ends_who_waits(self):
        waiting = asyncio.create_task(self.a.receive())
        await asyncio.sleep(0.01)
        self.a.close()
        with self.assertRaises(ripc.Shutdown):
            await waiting
        with self.assertRaises(ripc.Shutdown):
            await self.a.receive()

    async def test_close_ends_calls(self):
        call = asyncio.create_task(self.a.call(self.b.id, b'x', 60.0))
        await self.b.receive()
        self.a.close()
        with self.assertRaises(ripc.Shutdown):
            await asyncio.wait_for(call, 20)

    async def test_notices(self):
        self.a.raw.watch(self.b.id, 'the other')
        notice = await self.a.receive()
        self.assertEqual((notice.kind, notice.cookie), (ripc.NOTICE, 'the other'))
        self.assertEqual((notice.watched, notice.from_incarnation),
                         (True, self.b.raw.incarnation))


class Processes(unittest.TestCase):
    def test_a_thousand_services_of_four_processes(self):
        done = subprocess.run([sys.executable, BENCH, '--clients', str(CLIENTS), '--rounds', '5'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=110)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f'{6 * CLIENTS} of {6 * CLIENTS} requests', done.stdout)
        print(done.stdout)


if __name__ == '__main__':
    unittest.main()
