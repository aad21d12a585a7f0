# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C, and other signals, while a call waits."""
import contextlib
import select
import signal
import subprocess
import sys
import threading
import time
import unittest

import ripc

PATIENCE = 60.0
AT_ONCE = 8  # children

# {wait} waits longer than any test may take; {set_up} makes what it needs.
CHILD = '''
import faulthandler, os, ripc, signal, threading
faulthandler.dump_traceback_later(50, exit=True)
ctx = ripc.Context(backends='{backend}', interfaces='lo'{options})
other = ripc.Context(backends='{backend}', interfaces='lo', pool_bytes=64 << 20)
still = ripc.Context(backends='{backend}', interfaces='lo', no_thread=True)
me, mute, silent = ctx.service(), other.service(), still.service()
nobody = f'nobody {os.getpid()}'
{set_up}
try:
    print('ready', flush=True)
    {wait}
    print('it did not wait', flush=True)
except KeyboardInterrupt as interrupt:
    told = interrupt.__context__
    again = ctx.service() if me.closed or {ends} else me
    again.send_long(again.id, b'still of use')
    while bytes(message := again.receive(20)) != b'still of use':
        message.free()
    print(getattr(told, 'outcome', None), again.receive_nothing(), flush=True)
for end in (me, mute, silent, ctx, other, still):
    end.close()
'''.replace('again.receive_nothing()', 'again.look() is None')

FILL = '''
full = b'x' * (8 << 20)
'''

# A message to me of which only the beginning comes.
HALF = '''
tail = silent.send(me.id, bytes(64 << 20), 600, nowait=True)
while not ctx.stats()['granted_bytes']:
    still.poll()
'''

GROUP = '''
group = ripc.group_from_name(nobody)
mute.join(group)
ctx.wait_for(group, 20)
full = b'x' * (8 << 20)
'''

# name: (what waits, set up, outcomes that may be told)
NONE = (None,)
NOT = (ripc.NOT_DELIVERED,)
MANY = (ripc.NOT_DELIVERED, ripc.DELIVERED)  # perhaps one that did not wait
WAITS = {
    'receive': ('me.receive()', '', NONE),
    'receive with a timeout': ('me.receive(600)', '', NONE),
    'iteration': ('next(me)', '', NONE),
    'look': ('[me.look(1000000) for _ in range(600)]', '', NONE),
    'serve': ('ripc.serve(me, bytes)', '', NONE),
    'call a silent one': ('me.call(silent.id, b"x", 600)', '', NOT),
    'call without a reply': ('me.call(mute.id, b"x", 600)', '', (ripc.DELIVERED,)),
    'call, idempotent': ('me.call(mute.id, b"x", 600, True)', '',
                         (ripc.DELIVERED, ripc.UNKNOWN)),
    'call with return buffers': ('me.call(mute.id, b"x", 600, returns=[bytearray(9)])', '',
                                 (ripc.DELIVERED,)),
    'call, given': ('me.call(mute.id, ctx.buffer(1 << 20), 600, give=True)', '',
                    (ripc.DELIVERED,)),
    'call nobody': ('me.call(nobody, b"x", 600)', '', NOT),
    'send_long': ('me.send_long(silent.id, b"x", 600)', '', NOT),
    'send_long to one that reads nothing':
        ('[me.send_long(mute.id, full, 600) for _ in range(100000)]', FILL, MANY),
    'send_long, given': ('me.send_long(silent.id, ctx.buffer(1 << 20), 600, give=True)', '', NOT),
    'send_long, ordered': ('me.send_long(silent.id, b"x", 600, ordered=True)', '', NOT),
    'send_long that waits for somebody': ('me.send_long(nobody, b"x", 600, wait=True)', '', NOT),
    'send': ('me.send(silent.id, b"x", 600, returns=[bytearray(9)], cookie=1)', '', NOT),
    'send to a group':
        ('[me.send(group, full, 600) for _ in range(100000)]', GROUP, MANY),
    'resolve': ('ctx.resolve(silent.id, 600)', '', NONE),
    'wait_for': ('ctx.wait_for(nobody, 600)', '', NONE),
    'list': ('ctx.list(600)', '', NONE),
    'ping': ('me.ping(silent.id, 600)', '', NONE),
    'drain': ('me.drain(600)', HALF, NONE),
    'service': ('[ctx.service(f"{nobody} {n}") for n in range(100000)]', '', NONE),
    'services': ('[ctx.services([f"{nobody} {n}"] * 2000) for n in range(100000)]', '', NONE),
    'Context': ('[ripc.Context(backends="udp").close() for _ in range(100000)]', '', NONE),
}


def sigint_as_usual():
    """A shell ignores it for what it runs in the background, and Python keeps to that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(program, **words):
    for word, text in words.items():
        program = program.replace('{' + word + '}', text)
    return subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=sigint_as_usual)


def pause():
    """Most likely the child waits afterwards; if it does not yet, that is right, too."""
    time.sleep(0.3)


class Child(unittest.TestCase):
    def end(self, child):
        said, errors = child.communicate(timeout=PATIENCE)
        self.assertEqual((child.returncode, errors), (0, ''))
        return said.strip()


class Interrupts(Child):
    def child(self, name, backend, options):
        wait, set_up, _ = WAITS[name]
        return start(CHILD, backend=backend, options=options, set_up=set_up, wait=wait,
                     ends=str(name == 'drain'))

    def interrupt(self, names, backend, options=''):
        children = {name: self.child(name, backend, options) for name in names}
        for child in children.values():
            self.assertEqual(child.stdout.readline(), 'ready\n')
        pause()
        for child in children.values():
            child.send_signal(signal.SIGINT)
        for name, child in children.items():
            with self.subTest(name):
                self.assertIn(self.end(child), [f'{outcome} True' for outcome in WAITS[name][2]])

    def interrupt_all(self, backend):
        # Shared memory has the whole message at once: drain() would not wait.
        names = [name for name in WAITS if name != 'drain' or backend != 'shm']
        for at in range(0, len(names), AT_ONCE):
            self.interrupt(names[at:at + AT_ONCE], backend)

    def test_all_by_udp(self):
        self.interrupt_all('udp')

    def test_all_by_shm(self):
        self.interrupt_all('shm')

    def test_some_at_once(self):
        self.interrupt(('receive', 'call without a reply', 'send_long', 'ping', 'resolve'), 'udp',
                       ', interruptible=True')


# The other one is stopped, so that what becomes of the message stays unknown.
STOPPED = '''
import faulthandler, ripc
faulthandler.dump_traceback_later(50, exit=True)
ctx = ripc.Context(backends='{backend}', interfaces='lo')
me = ctx.service()
to = int(input())
data = bytearray(b'x' * 200000)
me.send_long(to, data, 20)
print('known', flush=True)
input()
try:
    print('ready', flush=True)
    {wait}
except KeyboardInterrupt as interrupt:
    print(interrupt.__context__.outcome, flush=True)
try:
    data.extend(b'y')
    print('free', flush=True)
except BufferError:
    print('in use', flush=True)
input()
me.send_long(to, b'end', 20)
while True:
    try:
        data.extend(b'y')
        break
    except BufferError:
        me.look(10000)
        try:
            me.receive(0.01)
        except ripc.TimedOut:
            pass
print('free', flush=True)
ctx.close()
'''


class Stopped(Child):
    def leave_behind(self, backend, wait):
        partner = start(STOPPED_PARTNER, backend=backend)
        child = start(STOPPED, backend=backend, wait=wait)
        child.stdin.write(partner.stdout.readline())
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), 'known\n')
        partner.send_signal(signal.SIGSTOP)
        try:
            child.stdin.write('go\n')
            child.stdin.flush()
            self.assertEqual(child.stdout.readline(), 'ready\n')
            pause()
            child.send_signal(signal.SIGINT)
            outcome = child.stdout.readline().strip()
            # If the partner had taken all of it before, it is known, and the memory free.
            self.assertIn((outcome, child.stdout.readline().strip()),
                          ((str(ripc.UNKNOWN), 'in use'), (str(ripc.DELIVERED), 'free'),
                           (str(ripc.NOT_DELIVERED), 'free')))
        finally:
            partner.send_signal(signal.SIGCONT)
        child.stdin.write('go\n')
        child.stdin.flush()
        self.assertEqual(self.end(child), 'free')
        self.assertEqual(self.end(partner), '')

    def test_a_send_that_is_left_behind(self):
        for backend in ('udp', 'shm'):
            with self.subTest(backend):
                self.leave_behind(backend, 'me.send_long(to, data, 600)')

    def test_a_call_that_is_left_behind(self):
        for backend in ('udp', 'shm'):
            with self.subTest(backend):
                self.leave_behind(backend, 'me.call(to, data, 600)')


STOPPED_PARTNER = '''
import faulthandler, ripc
faulthandler.dump_traceback_later(50, exit=True)
with ripc.Context(backends='{backend}', interfaces='lo') as ctx, ctx.service() as me:
    print(me.id, flush=True)
    while bytes(me.receive(40)) != b'end':
        pass
'''

GOES_ON = '''
import faulthandler, ripc, signal
faulthandler.dump_traceback_later(50, exit=True)
caught = []
signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
ctx = ripc.Context(backends='udp', interfaces='lo'{options})
still = ripc.Context(backends='udp', interfaces='lo', no_thread=True)
me, silent = ctx.service(), still.service()
print('ready', flush=True)
input()
try:
    {wait}
    print('it ended', flush=True)
except ripc.TimedOut:
    print(len(caught) > 1, flush=True)
input()
'''

THREAD = '''
import faulthandler, ripc, threading
faulthandler.dump_traceback_later(50, exit=True)
with ripc.Context(backends='shm', interfaces='lo') as ctx:
    client, server = ctx.service(), ctx.service()
    answers = []
    def ask():
        answers.append(bytes(client.call(server.id, b'x', 40)))
        client.send_long(server.id, b'y', 40)
    thread = threading.Thread(target=ask)
    thread.start()
    request = server.receive(40)
    try:
        print('ready', flush=True)
        server.receive(40)
    except KeyboardInterrupt:
        request.reply(b'yes')
    print(bytes(server.receive(40)), flush=True)
    thread.join()
    print(answers, flush=True)
'''


class Handlers(Child):
    # Signals come more often than the time is long: if it began anew with each, it had no end.
    def go_on(self, options):
        children = {wait: start(GOES_ON, wait=wait, options=options) for wait in (
            'me.receive(1.5)', 'me.call(silent.id, b"x", 1.5)',
            'me.send_long(silent.id, b"x", 1.5)', 'me.ping(silent.id, 1.5)',
            'ctx.resolve(silent.id, 1.5)', 'ctx.wait_for(silent.id, 1.5)')}
        for child in children.values():
            self.assertEqual(child.stdout.readline(), 'ready\n')
        for child in children.values():
            child.stdin.write('go\n')
            child.stdin.flush()
        waiting = {child.stdout: child for child in children.values()}
        until = time.monotonic() + PATIENCE
        while waiting and time.monotonic() < until:
            for child in waiting.values():
                child.send_signal(signal.SIGUSR1)
            for stdout in select.select(list(waiting), [], [], 0.05)[0]:
                del waiting[stdout]
        self.assertEqual(waiting, {})
        for wait, child in children.items():
            with self.subTest(wait + options):
                child.stdin.write('enough\n')
                self.assertEqual(self.end(child), 'True')

    def test_the_time_is_one(self):
        self.go_on('')

    def test_the_time_is_one_where_signals_end_waits(self):
        self.go_on(', interruptible=True')

    def test_what_waits_in_another_thread_goes_on(self):
        child = start(THREAD)
        self.assertEqual(child.stdout.readline(), 'ready\n')
        pause()
        child.send_signal(signal.SIGINT)
        self.assertEqual(self.end(child), "b'y'\n[b'yes']")


class Ended(Exception):
    pass


class InThisProcess(unittest.TestCase):
    def setUp(self):
        self.ctx = ripc.Context(backends='shm', interfaces='lo')
        self.addCleanup(self.ctx.close)
        self.me, self.mute = self.ctx.service(), self.ctx.service()
        self.addCleanup(signal.signal, signal.SIGALRM, signal.getsignal(signal.SIGALRM))

    def handler_is(self, handler):
        signal.signal(signal.SIGALRM, handler)

    @staticmethod
    def raises(*_):
        raise Ended

    # The message and the signal come together; the handler runs when receive() has the message.
    def test_a_message_is_not_lost(self):
        self.handler_is(self.raises)
        me = self.me

        def signal_and_send(number):
            signal.raise_signal(signal.SIGALRM)
            self.mute.send_long(me.id, b'%d' % number, 20.0)
        for number in range(50):
            thread = threading.Thread(target=signal_and_send, args=(number,))
            try:
                thread.start()
                me.receive(PATIENCE)
                self.assertTrue(False, 'the handler did not run')
            except Ended:
                pass
            self.assertEqual(bytes(me.receive(20.0)), b'%d' % number)
            thread.join()
        self.assertIsNone(me.look())

    # An event loop sees it, too, and sees nothing more once it was received.
    def test_a_message_that_is_kept_is_reported(self):
        self.handler_is(self.raises)
        me, edges = self.me, select.epoll()
        self.addCleanup(edges.close)
        edges.register(me, select.EPOLLIN | select.EPOLLET)

        def signal_and_send(number):
            signal.raise_signal(signal.SIGALRM)
            self.mute.send_long(me.id, b'%d' % number, 20.0)
        for number in range(20):
            thread = threading.Thread(target=signal_and_send, args=(number,))
            with self.assertRaises(Ended):
                thread.start()
                me.receive(PATIENCE)
            self.assertEqual(select.select([me], [], [], 20.0)[0], [me])
            self.assertEqual(len(edges.poll(20.0)), 1)
            self.assertEqual(bytes(me.look()), b'%d' % number)
            thread.join()
            self.assertIsNone(me.look())
            self.assertEqual(select.select([me], [], [], 0)[0], [])

    def test_close_is_interrupted(self):
        still = ripc.Context(backends='udp', interfaces='lo', no_thread=True)
        ctx = ripc.Context(backends='udp', interfaces='lo')
        self.handler_is(self.raises)
        silent, me = still.service(), ctx.service()
        me.send(silent.id, b'x', 600, nowait=True)
        with self.assertRaises(Ended):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            ctx.close(600)
        with self.assertRaises(ripc.TimedOut):
            ctx.close(0)
        ctx.close()
        still.close()

    # Python runs the handler in the main thread, whichever thread the signal has come to.
    def test_a_signal_ends_nothing_in_another_thread(self):
        still = ripc.Context(backends='udp', interfaces='lo', no_thread=True)
        ctx = ripc.Context(backends='udp', interfaces='lo', interruptible=True)
        silent, me, done = still.service(), ctx.service(), []
        self.handler_is(lambda *_: None)
        silent.send(me.id, bytes(64 << 20), 600, nowait=True)
        while not ctx.stats()['granted_bytes']:
            still.poll()

        def wait():
            done.append(ctx.service(f'{ctx} 0').closed)
            done.extend(service.closed for service in ctx.services([f'{ctx} 1', f'{ctx} 2']))
            with self.assertRaises(ripc.TimedOut):
                me.drain(0.5)
            done.append('drained')
        thread = threading.Thread(target=wait)
        thread.start()
        while thread.is_alive():
            signal.pthread_kill(thread.ident, signal.SIGALRM)
            time.sleep(0.001)
        self.assertEqual(done, [False, False, False, 'drained'])
        ctx.close()
        silent.close()
        still.close()

    # The handler gets one message, and leaves the other, which comes with a signal, too.
    def test_a_handler_receives_and_is_interrupted(self):
        me, got, threads = self.me, [], []

        def signal_and_send(text):
            signal.raise_signal(signal.SIGALRM)
            self.mute.send_long(me.id, text, 20.0)

        def begin(text):
            threads.append(threading.Thread(target=signal_and_send, args=(text,)))
            threads[-1].start()

        def handler(*_):
            if len(threads) == 1:
                with contextlib.suppress(Ended):
                    begin(b'second')
                    while True:
                        got.append(bytes(me.receive(PATIENCE)))
            raise Ended
        self.handler_is(handler)
        for _ in range(20):
            with contextlib.suppress(Ended):
                begin(b'first')
                me.receive(PATIENCE)
            while len(got) < 2:
                got.append(bytes(me.receive(20.0)))
            self.assertEqual(sorted(got), [b'first', b'second'])  # the threads may overtake one another
            for thread in threads:
                thread.join()
            got.clear()
            threads.clear()

    def test_nothing_is_lost_of_many(self):
        self.handler_is(self.raises)
        data, n_told = bytearray(b'x' * 1000), 0
        for number in range(40):
            with self.assertRaises(Ended) as raised:
                signal.setitimer(signal.ITIMER_REAL, 0.01 + 0.0002 * number)
                if number % 2:
                    self.me.call(self.mute.id, data, PATIENCE, returns=[bytearray(10)])
                else:
                    self.me.call('nobody at all', [data], PATIENCE)
            told = raised.exception.__context__
            n_told += isinstance(told, ripc.Interrupted)
            self.assertTrue(told is None or isinstance(told, ripc.Interrupted))
            raised.exception.__traceback__ = None
            data.extend(b'y')  # nobody looks into it any more
        self.assertGreater(n_told, 0)
        self.assertEqual(self.ctx.stats()['calls_open'], 0)

    def test_a_handler_closes(self):
        for close in (self.me.close, self.ctx.close):
            self.handler_is(lambda *_: close())
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with self.assertRaises(ripc.Shutdown) as raised:
                (self.mute if self.me.closed else self.me).call('nobody', b'x', PATIENCE)
            self.assertIn(raised.exception.outcome, (0, ripc.UNKNOWN))

    def test_a_handler_closes_during_an_errand(self):
        still = ripc.Context(backends='shm', interfaces='lo', no_thread=True)
        silent = still.service()
        for close in (self.me.close, self.ctx.close):
            self.handler_is(lambda *_: close())
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with self.assertRaises(ripc.Shutdown):
                (self.mute if self.me.closed else self.me).ping(silent.id, PATIENCE)
        with ripc.Context(backends='shm', interfaces='lo') as ctx:
            self.handler_is(lambda *_: ctx.close())
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with self.assertRaises(ripc.Shutdown):
                while True:
                    ctx.service('one and the same').close()
        still.close()

    def test_a_context_of_the_exception_is_kept(self):
        def handler(*_):
            try:
                raise KeyError
            except KeyError:
                raise Ended
        self.handler_is(handler)
        with self.assertRaises(Ended) as raised:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            self.me.call('nobody', b'x', PATIENCE)
        self.assertIsInstance(raised.exception.__context__, KeyError)
        told = raised.exception.__context__.__context__
        self.assertEqual((told.errno, told.outcome), (4, ripc.NOT_DELIVERED))
        self.assertIn('was not delivered', str(told))

    # The partner has taken a part of the request, and says nothing more.
    def test_a_request_is_not_let_go_before_close_has_ended(self):
        still = ripc.Context(backends='udp', interfaces='lo', no_thread=True)
        ctx = ripc.Context(backends='udp', interfaces='lo')
        silent, me, closed = still.service(), ctx.service(), []
        data = bytearray(64 << 20)
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())

        def close():
            while not still.stats()['granted_bytes']:
                still.poll()
            time.sleep(0.3)  # the call waits in the library
            sys.setswitchinterval(PATIENCE)
            me.close()
            closed.append(True)
        thread = threading.Thread(target=close)
        thread.start()
        with self.assertRaises(ripc.Error):
            me.call(silent.id, data, 600)
        try:
            data.append(1)
            is_free = True
        except BufferError:
            is_free = False
        self.assertFalse(is_free and not closed)
        thread.join()
        data.append(1)
        ctx.close()
        still.close()

    # Closing does not wait for what others wait for.
    def test_close_ends_a_drain_and_what_waits_in_the_context(self):
        still = ripc.Context(backends='shm', interfaces='lo', no_thread=True)
        silent = still.service()
        ended = []

        def wait(call):
            try:
                call()
            except ripc.Error as error:
                ended.append(type(error))
        calls = (lambda: self.ctx.resolve(silent.id, 600), lambda: self.me.ping(silent.id, 600),
                 lambda: self.me.send_long(silent.id, b'x', 600),
                 lambda: self.ctx.wait_for('nobody', 600))
        threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        with contextlib.suppress(ripc.TimedOut):  # the send may have begun
            self.ctx.close()
        for thread in threads:
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())
        self.assertEqual(len(ended), 4)
        still.close()


if __name__ == '__main__':
    unittest.main()
