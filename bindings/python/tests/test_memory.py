# SPDX-License-Identifier: BSD-3-Clause
"""Messages and buffers as memory: views, who keeps what alive, and that nothing is left behind."""
import errno
import gc
import glob
import os
import pickle
import re
import sys
import unittest

import ripc

try:
    import numpy
except ImportError:
    numpy = None

MIB = 1 << 20
HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../include/ripc')
MESSAGES = 10_000_000 if os.environ.get('RIPC_TEST_FULL') else 100_000


def resident():
    with open('/proc/self/statm', encoding='ascii') as statm:
        return int(statm.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


class Pair(unittest.TestCase):
    def setUp(self):
        self.ctx, self.other = (ripc.Context(backends='shm', interfaces='lo') for _ in '12')
        self.a, self.b = self.ctx.service(), self.other.service()
        self.addCleanup(self.other.close)
        self.addCleanup(self.ctx.close)

    def send(self, data, **options):
        self.a.send_long(self.b.id, data, 20.0, **options)
        return self.b.receive(20.0)


class Groups(Pair):
    def test_to_all(self):
        group = ripc.group_from_name(f'python {os.getpid()}')
        other = self.other.service()
        with self.assertRaises(ripc.NotFound):
            self.a.send_long(group, b'nobody', 20.0)
        for member in (self.b, other):
            member.join(group)
        self.ctx.wait_for(group)
        while True:  # until both are found
            self.a.send_long(group, b'news', 20.0)
            message = self.b.receive(20.0)
            self.assertEqual((bytes(message), message.group, message.from_id),
                             (b'news', group, self.a.id))
            if other.look(100000):
                break
        with self.assertRaises(ripc.Error):
            self.b.join(self.a.id)
        self.b.leave(group)
        with self.assertRaises(ripc.Error):
            self.b.leave(group)


class Views(Pair):
    def test_a_view_keeps_the_message(self):
        view = memoryview(self.send(b'x' * MIB))
        used = self.other.stats()['pool_used_bytes']
        gc.collect()
        self.assertEqual((len(view), view[0], view[-1]), (MIB, ord('x'), ord('x')))
        self.assertGreaterEqual(used, MIB)
        view.release()
        self.assertLess(self.other.stats()['pool_used_bytes'], MIB)

    def test_an_item_keeps_the_message(self):
        item = self.send([b'one', b'y' * MIB, b'three'])[1]
        self.assertGreaterEqual(self.other.stats()['pool_used_bytes'], MIB)
        self.assertEqual(bytes(item[:2]), b'yy')
        del item
        self.assertLess(self.other.stats()['pool_used_bytes'], MIB)

    def test_several_items_are_no_single_view(self):
        message = self.send([b'one', b'two'])
        with self.assertRaisesRegex(BufferError, r'use message\[0\]'):
            memoryview(message)
        self.assertEqual(bytes(message), b'onetwo')
        with self.assertRaisesRegex(IndexError, '2 items'):
            message[2]

    def test_free_while_somebody_looks(self):
        message = self.send(b'abc')
        view = memoryview(message)
        with self.assertRaisesRegex(BufferError, '1 views'):
            message.free()
        view.release()
        message.free()
        message.free()
        with self.assertRaisesRegex(BufferError, 'was freed'):
            memoryview(message)
        self.assertEqual((len(message), message.from_id), (0, self.a.id))

    def test_with_frees(self):
        with self.send(b'z' * MIB) as message:
            self.assertEqual(message[0][0], ord('z'))
        self.assertLess(self.other.stats()['pool_used_bytes'], MIB)

    def test_what_is_ours_can_be_written_to(self):
        view = memoryview(self.send(b'abc' * 1000))
        self.assertFalse(view.readonly)
        view[0] = 1

    def test_a_view_outlives_the_context(self):
        view = memoryview(self.send(b'kept'))
        self.other.close()
        self.assertTrue(self.other.closed)
        self.assertEqual(bytes(view), b'kept')
        with self.assertRaisesRegex(ripc.Shutdown, 'context is closed'):
            self.other.service()
        del view

    def test_a_message_without_views_goes_with_the_context(self):
        message = self.send(b'gone')
        self.other.close()
        with self.assertRaisesRegex(BufferError, 'context closed'):
            memoryview(message)

    def test_no_items_are_true_too(self):
        self.a.watch('nobody-has-this-name')
        notice = self.a.receive(20.0)
        self.assertTrue(notice)
        self.assertEqual((len(notice), bytes(notice), list(notice)), (0, b'', []))
        self.assertEqual(bytes(memoryview(notice)), b'')


class Buffers(Pair):
    def test_a_given_buffer_is_read_only_until_it_is_back(self):
        buffer = self.ctx.buffer(MIB)
        memoryview(buffer)[:4] = b'true'
        message = self.send(buffer, give=True)
        self.assertEqual(bytes(memoryview(message)[:4]), b'true')
        self.assertGreater(buffer.refs, 1)
        self.assertTrue(memoryview(buffer).readonly)
        self.assertTrue(memoryview(message).readonly)
        self.assertEqual(self.other.stats()['mapped_bytes'], MIB)
        self.assertEqual(message.places, (ripc.IN_SENDER,))
        self.assertEqual(self.ctx.holders()[0]['id'], self.b.id)
        del message
        while buffer.refs > 1:
            self.ctx.poll()
        memoryview(buffer)[:4] = b'anew'

    def test_a_given_buffer_is_copied_if_wanted(self):
        buffer = self.ctx.buffer(MIB)
        memoryview(buffer)[:4] = b'true'
        with ripc.Context(backends='shm', interfaces='lo', copy_given=True) as wary, \
                wary.service() as reader:
            self.a.send_long(reader.id, buffer, 20.0, give=True)
            with reader.receive(20.0) as message:
                self.assertEqual(message.places, (ripc.IN_POOL,))
                self.assertEqual(bytes(memoryview(message)[:4]), b'true')
                self.assertFalse(memoryview(message).readonly)
                self.assertEqual(wary.stats()['mapped_bytes'], 0)

    def test_one_that_was_not_delivered_is_ours(self):
        buffer = self.ctx.buffer(MIB)
        with self.assertRaises(ripc.Error):
            self.a.send_long('nobody-has-this-name', buffer, 1.5, give=True)
        self.a.send('nobody-has-this-name', buffer, 1.5, give=True, nowait=True, cookie='c')
        self.assertEqual(self.a.receive(20.0).cookie, 'c')
        self.assertEqual(buffer.refs, 1)

    def test_memory_of_ones_own(self):
        own = bytearray(MIB)
        self.ctx.register(own)
        self.assertEqual(len(memoryview(self.send(own))), MIB)
        self.assertEqual(self.ctx.stats()['sends_from_foreign_memory'], 0)
        with self.assertRaises(BufferError):
            own.append(1)
        self.ctx.unregister(own)
        own.append(1)
        with self.assertRaises(ripc.NotFound):
            self.ctx.unregister(own)

    def test_too_much(self):
        with ripc.Context(backends='shm', pool_bytes=16 * MIB) as small:
            with self.assertRaisesRegex(ripc.Error, 'ENOMEM.*pool_bytes') as raised:
                small.buffer(64 * MIB)
            self.assertEqual(raised.exception.errno, 12)
            self.assertIn('pool', small.log()[0][1])

    def test_what_is_being_sent_cannot_be_resized(self):
        data = bytearray(b'x' * 1000)
        self.a.call_start(self.b.id, data, 20.0, cookie=1)
        with self.assertRaises(BufferError):
            data.append(1)
        self.b.receive(20.0).reply()
        self.assertEqual(self.a.receive(20.0).kind, ripc.REPLY)
        data.append(1)

    def test_windows_and_returns_are_held_and_let_go(self):
        window = bytearray(5000)
        self.b.post_window(window, 'w')
        message = self.send(b'x' * 5000)
        self.assertEqual((window[4999], message.lent), (ord('x'), ('w',)))
        with self.assertRaises(BufferError):
            window.append(1)
        del message
        window.append(1)

    def test_closing_lets_go(self):
        window = bytearray(5000)
        self.b.post_window(window)
        self.b.close()
        window.append(1)


class Counters(Pair):
    def test_all_that_the_library_has(self):
        with open(os.path.join(HEADERS, 'stats.h'), encoding='utf-8') as header:
            struct = re.search(r'^struct ripc_stats \{(.*?)^\};', header.read(), re.S | re.M).group(1)
        struct = re.sub(r'/\*.*?\*/', '', struct, flags=re.S)
        names = re.findall(r'\w+', ' '.join(re.findall(r'uint64_t ([^;]+);', struct)))
        self.assertEqual(list(self.ctx.stats()), names)


class Partners(Pair):
    """The last ones are remembered by their objects, and a freed Message's memory is used again."""

    def test_many_in_turn(self):
        name = f'partner-{os.getpid()}'
        named = self.other.service(name)
        numbers = {service.id: service for service in (self.b, self.other.service(), named)}
        for _ in range(20):
            for to in (*numbers, name, int(str(self.b.id)), *numbers):
                service = named if to == name else numbers[to]
                self.a.send_long(to, b'%d' % service.id, 20.0)
                message = service.receive(20.0)
                self.assertEqual((bytes(message), message.from_id), (b'%d' % service.id, self.a.id))
                service.send_long(message.from_id, message, 20.0)
                answer = self.a.receive(20.0)
                self.assertEqual((bytes(answer), answer.from_id), (bytes(message), service.id))

    def test_what_is_no_plain_number_is_read_each_time(self):
        class Number(int):
            pass
        for to in (Number(self.b.id), self.b.id, Number(self.b.id)):
            self.a.send_long(to, b'x', 20.0)
            self.assertEqual(bytes(self.b.receive(20.0)), b'x')

    def test_messages_beside_each_other(self):
        kept = []
        for number in range(50):
            kept.append(self.send(b'%d' % number))
            if number % 3 == 2:
                del kept[-2:]
        self.assertEqual([bytes(message) for message in kept],
                         [b'%d' % number for number in range(50) if number % 3 == 0 or number > 47])

    def test_a_message_outlives_its_service(self):
        message = self.send(b'x')
        self.b.close()
        self.b = None
        self.assertEqual((bytes(message), message.from_id), (b'x', self.a.id))


class Arguments(Pair):
    def test_text_is_refused(self):
        with self.assertRaisesRegex(TypeError, 'encode'):
            self.a.send_short(self.b.id, 'text')

    def test_wrong_ones(self):
        for wrong, kind in (
                (lambda: self.a.send_short(self.b.id), TypeError),
                (lambda: self.a.send_short(-1, b''), OverflowError),
                (lambda: self.a.send_short(1.5, b''), TypeError),
                (lambda: self.a.send_short('', b''), ValueError),
                (lambda: self.a.send_short('a\0b', b''), ValueError),
                (lambda: self.a.send_long(1, b'', 0), ValueError),
                (lambda: self.a.send_long(1, b'', -1), ValueError),
                (lambda: self.a.send_long(1, b'', float('nan')), ValueError),
                (lambda: self.a.send_long(1, b'', nonsense=1), TypeError),
                (lambda: self.a.send_long(1, b'', 1, timeout=1), TypeError),
                (lambda: self.a.call(1), TypeError),
                (lambda: self.a.call(1, b'', returns=b'constant'), BufferError),
                (lambda: self.a.post_window([]), TypeError),
                (lambda: self.a.receive('soon'), TypeError),
                (lambda: self.a.look(-1), ValueError),
                (lambda: self.ctx.buffer(-1), ValueError),
                (lambda: ripc.Context(nonsense=1), TypeError),
                (lambda: ripc.Service(), TypeError)):
            with self.assertRaises(kind):
                wrong()

    def test_what_cannot_be_pickled(self):
        for thing in (self.ctx, self.a, self.send(b'x'), self.ctx.buffer(1)):
            with self.assertRaisesRegex(TypeError, 'pickle'):
                pickle.dumps(thing)


class Errors(Pair):
    def test_each_names_its_errno_and_a_remedy(self):
        with self.assertRaises(ripc.NotFound) as raised:
            self.a.send_long('nobody-has-this-name', b'x', 20.0)
        error = raised.exception
        self.assertEqual((error.errno, error.outcome), (2, ripc.NOT_DELIVERED))
        self.assertIn('ENOENT: ' + ripc.strerror(-2), str(error))
        self.assertIn('start it', str(error))

    def test_all_that_the_headers_name(self):
        names = set()
        for path in glob.glob(os.path.join(HEADERS, '*.h')):
            with open(path, encoding='utf-8') as header:
                names.update(re.findall(r'-(E[A-Z]{3,})\b', header.read()))
        self.assertGreater(len(names), 20)
        for name in names:
            number = getattr(errno, name)
            error = ripc.errors.make(number, 0, ripc.strerror(-number), None)
            self.assertEqual((error.errno, isinstance(error, OSError)), (number, True))
            self.assertRegex(str(error), f'{name}: .+: .+')
            self.assertNotIn(os.strerror(number), str(error))

    def test_python_s_own_kinds(self):
        with self.assertRaises(TimeoutError):
            self.a.receive(0.01)
        with self.assertRaises(BlockingIOError):
            self.a.receive(0)
        with self.assertRaises(InterruptedError):
            self.a.wake()
            self.a.receive()

    def test_an_error_of_the_server_is_told_as_such(self):
        self.a.call_start(self.b.id, b'?', cookie=1)
        self.b.receive(20.0).reply_error(2)
        error = self.a.receive(20.0).exception()
        self.assertIsInstance(error, ripc.Remote)
        self.assertIn('No such file', str(error))
        self.assertIn('the server has replied', str(error))

    def test_a_context_says_what_was_wrong(self):
        with self.assertRaisesRegex(ripc.Error, 'EINVAL.*unknown "nonsense"'):
            ripc.Context(backends='nonsense')


@unittest.skipUnless(numpy, 'there is no numpy')
class Arrays(Pair):
    def test_80_mib_without_a_copy(self):
        buffer = self.ctx.buffer(80 * MIB)
        array = numpy.frombuffer(buffer, dtype=numpy.float64)
        array[:] = numpy.arange(len(array))
        message = self.send(buffer, give=True)
        got = numpy.frombuffer(message, dtype=numpy.float64)
        del message
        self.assertTrue((got == array).all())
        self.assertEqual(self.other.stats()['mapped_bytes'], 80 * MIB)
        self.assertEqual(self.ctx.stats()['sends_from_foreign_memory'], 0)
        del got
        self.assertEqual(self.other.stats()['mapped_held_bytes'], 0)

    def test_an_array_as_it_is(self):
        array = numpy.arange(1000, dtype=numpy.int32).reshape(10, 100)
        got = numpy.frombuffer(self.send(array), dtype=numpy.int32).reshape(10, 100)
        self.assertTrue((got == array).all())
        with self.assertRaises(ValueError):
            self.send(array[:, ::2])

    def test_an_array_as_a_window(self):
        array = numpy.zeros(1000)
        self.b.post_window(array)
        message = self.send(numpy.ones(1000))
        self.assertEqual((message.places, array.sum()), ((ripc.IN_WINDOW,), 1000))


class Leaks(Pair):
    def send_short(self):
        while True:
            try:
                self.a.send_short(self.b.id, b'short')
                return
            except ripc.Again:
                self.ctx.poll()

    def rounds(self, n):
        for number in range(n):
            self.send_short()
            bytes(self.b.receive(20.0))
            if number % 10 == 0:
                self.a.call_start(self.b.id, [b'how', bytearray(3000)], 20.0, cookie=object())
                request = self.b.receive(20.0)
                request.reply(request[1])
                memoryview(self.a.receive(20.0))

    @unittest.skipIf('RIPC_TEST_SANITIZED' in os.environ, 'a sanitizer keeps what is freed')
    def test_memory_is_flat(self):
        self.rounds(MESSAGES // 10)
        before, objects = resident(), sys.getallocatedblocks()
        self.rounds(MESSAGES)
        self.assertLess(sys.getallocatedblocks() - objects, 1000)
        self.assertLess(resident() - before, 4 * MIB)


if __name__ == '__main__':
    unittest.main()
