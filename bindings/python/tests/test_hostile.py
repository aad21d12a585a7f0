# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that close the service, the context and the message while a method reads them."""
import gc
import unittest

import ripc

# Each method with arguments that it accepts; those without arguments are only named.
SERVICE = {
    'send_short': (1, b'x'), 'send_long': (1, b'x', 0.01, False, False, False),
    'send': (1, b'x', 0.01, False, True, False, False, False, False, None, 0, 0, None),
    'cancel': (1,), 'call': (1, b'x', 0.01, False, None, 0),
    'call_start': (1, b'x', 0.01, False, None, 0, None), 'reply': (None, b'x', False),
    'reply_error': (None, 5), 'receive': (0.0,), 'look': (0,), 'watch': (1, None),
    'unwatch': (1,), 'join': (1,), 'leave': (1,), 'post_window': (bytearray(9), None),
    'cancel_window': (1,), 'drain': (0.0,), 'ping': (1, 0.01), 'path': (1,),
    'wake': (), 'fd': (), 'fileno': (), 'close': (),
}
CONTEXT = {
    'service': (None,), 'services': ([1],), 'resolve': (1, 0.01), 'wait_for': (1, 0.01),
    'list': (0.01,), 'buffer': (9,), 'register': (bytearray(9),), 'unregister': (bytearray(9),),
    'close': (0.0,), 'stats': (), 'holders': (), 'log': (), 'poll': (), 'poll_timeout': (),
    'fd': (), 'reload_keys': (),
}
MESSAGE = {'reply': (b'x', False), 'reply_error': (5,), 'free': (), 'exception': (),
           'deliveries': ()}
# Functions with positional arguments only, and the numbers of arguments of the others.
PLACED = {'send_long': 3, 'send': 3, 'call': 4, 'call_start': 4}
NAMES = {
    'send_long': ('give', 'ordered', 'wait'),
    'send': ('short', 'nowait', 'give', 'ordered', 'wait', 'leave_slow', 'returns', 'reply_to',
             'to_incarnation', 'to_handle', 'cookie'),
    'call': ('returns', 'to_incarnation'), 'call_start': ('returns', 'to_incarnation', 'cookie'),
}


class Freed:
    """Closes a message by freeing it, unless a view looks into it."""

    def __init__(self, message):
        self.message = message

    def close(self):
        try:
            self.message.free()
        except BufferError:
            pass


class Closes:
    """As a number, truth, length or item it closes what it was given."""

    def __init__(self, closed):
        self.closed = closed

    def act(self):
        for what in self.closed:
            what.close()

    def __index__(self):
        self.act()
        return 1

    def __float__(self):
        self.act()
        return 0.01

    def __bool__(self):
        self.act()
        return False

    def __eq__(self, other):
        self.act()
        return True

    __hash__ = None


class Items(list):
    """Data whose length closes."""

    def __init__(self, items, closes):
        super().__init__(items)
        self.closes = closes

    def __len__(self):
        self.closes.act()
        return 1

    def __getitem__(self, at):
        self.closes.act()
        return super().__getitem__(at)


class Hostile(unittest.TestCase):
    def public(self, kind):
        return {name for name in dir(kind)
                if not name.startswith('_') and callable(getattr(kind, name))}

    def test_every_method_is_here(self):
        self.assertEqual(self.public(ripc.Service), set(SERVICE))
        self.assertEqual(self.public(ripc.Context), set(CONTEXT))
        self.assertEqual(self.public(ripc.Message), set(MESSAGE))

    def invoke(self, on_context, name, at, make):
        ctx = ripc.Context(backends='shm', interfaces='lo')
        me = ctx.service()
        if name in ('cancel_window', 'cancel'):
            me.post_window(bytearray(9), 1)
            me.send(me.id, b'x', nowait=True, cookie=1)
        given = list((CONTEXT if on_context else SERVICE)[name])
        if name in ('reply', 'reply_error'):
            asker = ripc.Context(backends='shm', interfaces='lo')
            self.addCleanup(asker.close)
            client = asker.service()
            client.call_start(me.id, b'x', 20.0)
            given[0] = me.receive(20.0)
        given[at] = make(Closes((me, ctx)))
        placed = PLACED.get(name, len(given))
        named = dict(zip(NAMES.get(name, ()), given[placed:]))
        try:
            getattr(ctx if on_context else me, name)(*given[:placed], **named)
        except (ripc.Error, TypeError, ValueError, BufferError):
            pass
        ctx.close()
        gc.collect()

    def invoke_on_message(self, by_service, name, at, make):
        """The message is freed, alone or with all that it came by, while a reply is read."""
        for closes_all in (False, True):
            ctx, asker = (ripc.Context(backends='shm', interfaces='lo') for _ in '12')
            self.addCleanup(asker.close)
            me, client = ctx.service(), asker.service()
            client.call_start(me.id, b'x' * 100000, 20.0)
            request = me.receive(20.0)
            given = list(MESSAGE[name])
            closed = (Freed(request), me, ctx) if closes_all else (Freed(request),)
            given[at] = make(Closes(closed), request)
            try:
                getattr(me if by_service else request, name)(*([request] if by_service else []),
                                                             *given)
            except (ripc.Error, TypeError, ValueError, BufferError):
                pass
            del request
            ctx.close()
            gc.collect()

    def test_messages(self):
        kinds = (lambda closes, request: closes, lambda closes, request: Items([b'x'], closes),
                 lambda closes, request: Items([request], closes),
                 lambda closes, request: [request[0], Items([b'x'], closes)])
        for name, given in MESSAGE.items():
            for at in range(len(given)):
                for make in kinds:
                    for by_service in (False, True):
                        with self.subTest(method=name, at=at, by_service=by_service):
                            self.invoke_on_message(by_service, name, at, make)

    def test_all(self):
        kinds = (lambda closes: closes, lambda closes: Items([b'x'], closes),
                 lambda closes: Items([bytearray(9)], closes), lambda closes: Items([1], closes))
        for on_context, methods in ((False, SERVICE), (True, CONTEXT)):
            for name, given in methods.items():
                for at in range(len(given)):
                    for make in kinds:
                        with self.subTest(method=name, at=at):
                            self.invoke(on_context, name, at, make)


if __name__ == '__main__':
    unittest.main()
