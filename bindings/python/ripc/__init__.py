# SPDX-License-Identifier: BSD-3-Clause
"""
libripc for Python: messages between processes, by service ID.

    with ripc.Context() as ctx, ctx.service() as me:
        reply = me.call('greeter', b'good morning')
        print(bytes(reply))

A message is in the library's memory: memoryview(message) and numpy.frombuffer(message) read
it without a copy, and it is freed with the last of them. ripc.aio is for asyncio.
"""
from ._ripc import (
    REPLY, COMPLETION, DELIVERED, IN_POOL, IN_RETURN, IN_SENDER, IN_WINDOW, ITEMS_MAX, LOG_DEBUG,
    LOG_ERROR, LOG_INFO, LOG_WARN, LONG, NOT_DELIVERED, NOTICE, REQUEST, SENDER_CLAIMED,
    SENDER_PROVEN, SENDER_RESOLVED, SHORT, SHORT_MIN, SPIN_NEVER, UNKNOWN, Buffer, Context, Message,
    Service, __version__, errname, group_from_name, id_from_name, probe, strerror, version)
from .errors import (
    Again, Error, Forked, Interrupted, NotFound, Remote, Reset, Shutdown, TimedOut)
from .server import serve

__all__ = [
    'REPLY', 'Again', 'Buffer', 'COMPLETION', 'Context', 'DELIVERED', 'Error', 'Forked',
    'IN_POOL', 'IN_RETURN', 'IN_SENDER', 'IN_WINDOW', 'ITEMS_MAX', 'Interrupted', 'LOG_DEBUG',
    'LOG_ERROR',
    'LOG_INFO', 'LOG_WARN', 'LONG', 'Message',
    'NOTICE', 'NOT_DELIVERED', 'NotFound', 'REQUEST', 'Remote', 'Reset', 'SHORT', 'SHORT_MIN',
    'SENDER_CLAIMED', 'SENDER_PROVEN', 'SENDER_RESOLVED', 'errname', 'version',
    'SPIN_NEVER', 'Service', 'Shutdown', 'TimedOut', 'UNKNOWN', '__version__',
    'group_from_name', 'id_from_name', 'probe', 'serve', 'strerror']
