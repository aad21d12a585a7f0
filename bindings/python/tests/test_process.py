# SPDX-License-Identifier: BSD-3-Clause
"""Signals, threads, fork, spawn, and the end of the interpreter."""
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import ripc

PATIENCE = 60.0

WAITS = '''
import faulthandler, ripc
faulthandler.dump_traceback_later(50, exit=True)
with ripc.Context(backends='shm', interfaces='lo'{options}) as ctx, ctx.service() as me:
    try:
        print('ready', flush=True)
        me.receive()
    except KeyboardInterrupt:
        me.send_long(me.id, b'still of use')
        print(bytes(me.receive(20)).decode(), flush=True)
'''

LISTS = '''
import faulthandler, ripc
faulthandler.dump_traceback_later(50, exit=True)
with ripc.Context(backends='shm', interfaces='lo'{options}) as ctx, ctx.service() as me:
    try:
        print('ready', flush=True)
        ctx.list(600)
    except KeyboardInterrupt:
        print(me.id in [found['id'] for found in ctx.list(0.2)], flush=True)
'''

CLOSES = '''
import faulthandler, ripc, signal
faulthandler.dump_traceback_later(50, exit=True)
ctx = ripc.Context(backends='shm', interfaces='lo')
me = ctx.service()
signal.signal(signal.SIGINT, lambda *_: ctx.close())
try:
    print('ready', flush=True)
    ctx.list(600)
except ripc.Shutdown:
    print('closed', flush=True)
'''

ASKS = '''
import ripc, sys
with ripc.Context(backends='shm', interfaces='lo') as ctx, ctx.service() as me:
    me.call(int(sys.stdin.readline()), b'x', 600)
'''

HANDLES = '''
import faulthandler, ripc, signal
faulthandler.dump_traceback_later(50, exit=True)
caught = []
signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
with ripc.Context(backends='shm', interfaces='lo'{options}) as ctx, ctx.service() as me:
    print(me.id, flush=True)
    message = me.receive()
    print(bytes(message).decode(), len(caught), flush=True)
'''

ENDS = '''
import ripc
ctx = ripc.Context(backends='shm', interfaces='lo')
me = ctx.service()
me.send_long(me.id, b'x' * 100000)
message = me.receive(20)
view = memoryview(message)
print(len(view), flush=True)
'''


def sigint_as_usual():
    """A shell ignores it for what it runs in the background, and Python keeps to that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(program, options=''):
    return subprocess.Popen([sys.executable, '-c', program.replace('{options}', options)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=sigint_as_usual)


class Signals(unittest.TestCase):
    def end(self, child, wanted):
        said, errors = child.communicate(timeout=PATIENCE)
        self.assertEqual((child.returncode, said.strip(), errors), (0, wanted, ''))

    def interrupt(self, options, program=WAITS, wanted='still of use'):
        child = start(program, options)
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        self.end(child, wanted)

    def test_ctrl_c(self):
        self.interrupt('')

    def test_ctrl_c_at_once(self):
        self.interrupt(', interruptible=True')

    def test_ctrl_c_while_listing(self):
        self.interrupt('', LISTS, 'True')
        self.interrupt(', interruptible=True', LISTS, 'True')

    def test_a_handler_closes_while_listing(self):
        self.interrupt('', CLOSES, 'closed')

    def test_a_reply_to_a_killed_client(self):
        child = subprocess.Popen([sys.executable, '-c', ASKS], stdin=subprocess.PIPE, text=True)
        with ripc.Context(backends='shm', interfaces='lo') as ctx, ctx.service() as me:
            child.stdin.write(f'{me.id}\n')
            child.stdin.close()
            request = me.receive(PATIENCE)
            child.kill()
            child.wait()
            until = time.monotonic() + PATIENCE
            while request.reply(b'x') is not False and time.monotonic() < until:
                time.sleep(0.01)
            self.assertIs(request.reply(b'x'), False)
            self.assertIs(request.reply_error(5), False)

    def handle(self, options):
        child = start(HANDLES, options)
        to = int(child.stdout.readline())
        child.send_signal(signal.SIGUSR1)
        with ripc.Context(backends='shm', interfaces='lo') as ctx, ctx.service() as me:
            time.sleep(0.5)  # the handler has most likely run by then; both ways are right
            me.send_long(to, b'a wait for', 20.0)
            self.end(child, 'a wait for 1')

    def test_a_handler_that_returns(self):
        self.handle('')

    def test_a_handler_that_returns_at_once(self):
        self.handle(', interruptible=True')

    def test_the_end_without_close(self):
        self.end(start(ENDS), '100000')


def child_serves(pipe):
    with ripc.Context(backends='shm', interfaces='lo') as ctx, ctx.service() as me:
        pipe.send(me.id)
        with me.receive(PATIENCE) as request:
            request.reply(b'from ' + bytes(request))
        pipe.recv()


class Processes(unittest.TestCase):
    def setUp(self):
        self.ctx = ripc.Context(backends='shm', interfaces='lo')
        self.me = self.ctx.service()
        self.addCleanup(self.ctx.close)

    def ask_child(self, method):
        process = multiprocessing.get_context(method)
        ours, its = process.Pipe()
        child = process.Process(target=child_serves, args=(its,))
        child.start()
        try:
            self.assertTrue(ours.poll(PATIENCE))
            answer = self.me.call(ours.recv(), method.encode(), 20.0)
            self.assertEqual(bytes(answer), b'from ' + method.encode())
            ours.send('enough')
        finally:
            child.join(PATIENCE)
        self.assertEqual(child.exitcode, 0)

    def test_fork(self):
        self.ask_child('fork')

    def test_spawn(self):
        self.ask_child('spawn')

    def test_what_the_parent_has_is_not_the_child_s(self):
        self.me.send_long(self.me.id, b'x' * 100000)
        message, buffer = self.me.receive(20.0), self.ctx.buffer(1000)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.write(writer, self.in_child(message, buffer).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        self.assertEqual((os.waitpid(child, 0)[1], said), (0, 'all as it should be'))
        self.assertEqual(len(memoryview(message)), 100000)
        self.me.send_long(self.me.id, b'y')
        self.assertEqual(bytes(self.me.receive(20.0)), b'y')

    def in_child(self, message, buffer):
        for use in (lambda: self.me.send_short(self.me.id, b'x'), lambda: self.me.receive(1.0),
                    lambda: self.ctx.service(), self.ctx.stats):
            try:
                use()
                return 'usable'
            except ripc.Forked as error:
                if 'open a context after fork()' not in str(error):
                    return str(error)
        for memory in (message, buffer):
            try:
                memoryview(memory)
                return 'readable'
            except BufferError as error:
                if 'parent process' not in str(error):
                    return str(error)
        message = buffer = None
        self.me.close()
        self.ctx.close()
        with ripc.Context(backends='shm', interfaces='lo') as ctx, ctx.service() as me:
            me.send_long(me.id, b'z')
            return 'all as it should be' if bytes(me.receive(20.0)) == b'z' else 'nothing came'


class Closing(unittest.TestCase):
    def setUp(self):
        self.ctx = ripc.Context(backends='udp', interfaces='lo')
        self.still = ripc.Context(backends='udp', interfaces='lo', no_thread=True)
        self.addCleanup(self.still.close)
        self.me, self.silent = self.ctx.service(), self.still.service()
        self.got, self.closed = [], False

    # Only from then on does the partner do anything.
    def take_when_closing(self, n):
        while not self.ctx.closed:
            time.sleep(0.001)
        self.got += sorted(bytes(self.silent.receive(PATIENCE)) for _ in range(n))
        while not self.closed:
            self.still.poll()
            time.sleep(0.001)

    def close_beside(self, n):
        taking = threading.Thread(target=self.take_when_closing, args=(n,), daemon=True)
        taking.start()
        try:
            self.ctx.close(PATIENCE)
        finally:
            self.closed = True
        taking.join(PATIENCE)
        self.assertFalse(taking.is_alive())

    def test_sends_that_do_not_wait_have_the_timeout(self):
        other = self.ctx.service()
        self.me.send_short(other.id, b'in the way of the ends')
        for service in (self.me, other):
            for text in (b'x', b'y' * 300000):
                service.send(self.silent.id, text, PATIENCE, nowait=True)
        other.drain(1.0)
        self.close_beside(4)
        self.assertEqual(self.got, [b'x', b'x', b'y' * 300000, b'y' * 300000])

    def test_sends_of_other_threads_have_the_timeout(self):
        ended, asked = [], self.ctx.stats()['queries_sent']
        sending = threading.Thread(target=lambda: ended.append(
            self.me.send_long(self.silent.id, b'x', PATIENCE)))
        sending.start()
        while self.ctx.stats()['queries_sent'] == asked:
            time.sleep(0.001)
        self.close_beside(1)
        sending.join(PATIENCE)
        self.assertEqual((self.got, ended), ([b'x'], [None]))

    def test_what_is_cut_off_is_told(self):
        data = bytearray(b'x')
        self.me.send(self.silent.id, data, PATIENCE, nowait=True)
        with self.assertRaises(ripc.TimedOut):
            self.ctx.close(0.05)
        data.append(1)  # nobody looks into it any more
        self.assertTrue(self.me.closed and self.ctx.closed)
        self.ctx.close()

    def test_what_is_cut_off_hides_no_exception(self):
        with self.assertRaises(KeyError), self.ctx:
            self.me.send(self.silent.id, b'x', PATIENCE, nowait=True)
            raise KeyError
        self.assertTrue(self.ctx.closed)


class Threads(unittest.TestCase):
    def setUp(self):
        self.ctx = ripc.Context(backends='shm', interfaces='lo')
        self.addCleanup(self.ctx.close)

    def run_all(self, *targets):
        failures = []

        def guarded(target):
            try:
                target()
            except BaseException as failure:
                failures.append(failure)
        threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())
        self.assertEqual(failures, [])

    def test_others_run_while_one_waits(self):
        me = self.ctx.service()
        waiting = threading.Thread(target=lambda: me.receive(PATIENCE))
        waiting.start()
        me.send_long(me.id, b'x')
        waiting.join(PATIENCE)
        self.assertFalse(waiting.is_alive())

    def test_many_ask_one_server_of_many_threads(self):
        server = self.ctx.service()
        serving = threading.Thread(target=ripc.serve,
                                   args=(server, lambda request: bytes(request) * 2, 3))
        serving.start()
        client = self.ctx.service()

        def ask():
            for number in range(100):
                text = b'%d' % number
                self.assertEqual(bytes(client.call(server.id, text, 30.0)), text * 2)
        self.run_all(*[ask] * 8)
        server.close()
        serving.join(PATIENCE)
        self.assertFalse(serving.is_alive())

    def test_close_while_threads_are_in_it(self):
        for _ in range(20):
            service = self.ctx.service()
            silent = self.ctx.service()

            def receive():
                with self.assertRaises(ripc.Shutdown):
                    while True:
                        service.receive()

            def ask():
                with self.assertRaises(ripc.Error):
                    while True:
                        service.call(silent.id, b'x', 30.0)
            threads = [threading.Thread(target=what) for what in (receive, receive, ask)]
            for thread in threads:
                thread.start()
            service.close()
            for thread in threads:
                thread.join(PATIENCE)
                self.assertFalse(thread.is_alive())

    def test_what_a_handler_raises(self):
        def handler(request):
            raise {b'key': KeyError('x'), b'file': FileNotFoundError(2, 'x')}[bytes(request)]
        server, client = self.ctx.service(), self.ctx.service()
        serving = threading.Thread(target=ripc.serve, args=(server, handler))
        serving.start()
        with self.assertLogs('ripc', 'ERROR'), self.assertRaises(ripc.Remote) as raised:
            client.call(server.id, b'key', 30.0)
        self.assertEqual(raised.exception.errno, 5)
        with self.assertRaises(ripc.Remote) as raised:
            client.call(server.id, b'file', 30.0)
        self.assertEqual(raised.exception.errno, 2)
        server.drain()
        serving.join(PATIENCE)
        self.assertFalse(serving.is_alive())


if __name__ == '__main__':
    unittest.main()
