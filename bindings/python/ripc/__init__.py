# SPDX-License-Identifier: BSD-3-Clause
"""
libripc for Python: messages between processes, by service ID.

    with ripc.Context() as ctx, ctx.service() as me:
        answer = me.call('greeter', b'good morning')
        print(bytes(answer))

A message is in the library's memory: memoryview(message) and numpy.frombuffer(message) look into
it without a copy, and it is freed with the last of them. ripc.aio is for asyncio.
"""
from ._ripc import (
    ANSWER, COMPLETION, DELIVERED, IN_POOL, IN_RETURN, IN_WINDOW, ITEMS_MAX, LONG, NOT_DELIVERED,
    NOTICE, QUESTION, SHORT, SHORT_MIN, SPIN_NEVER, UNKNOWN, Buffer, Context, Message, Service,
    __version__, group_from_name, id_from_name, probe, strerror)
from .errors import (
    Again, Error, Forked, Interrupted, NotFound, Remote, Reset, Shutdown, TimedOut)
from .server import serve

__all__ = [
    'ANSWER', 'Again', 'Buffer', 'COMPLETION', 'Context', 'DELIVERED', 'Error', 'Forked',
    'IN_POOL', 'IN_RETURN', 'IN_WINDOW', 'ITEMS_MAX', 'Interrupted', 'LONG', 'Message',
    'NOTICE', 'NOT_DELIVERED', 'NotFound', 'QUESTION', 'Remote', 'Reset', 'SHORT', 'SHORT_MIN',
    'SPIN_NEVER', 'Service', 'Shutdown', 'TimedOut', 'UNKNOWN', '__version__',
    'group_from_name', 'id_from_name', 'probe', 'serve', 'strerror']
