# SPDX-License-Identifier: BSD-3-Clause
"""
libripc with asyncio.

    async with aio.Service(ctx.service('echo')) as echo:
        async for message in echo:
            if message.kind == ripc.REQUEST:
                message.reply(message)

A Service belongs to the loop that runs when it is made. It waits through the descriptor of the
ripc.Service. Before a task awaits, it polls for up to 50 us if no other task is ready: a reply
that arrives so soon costs no turn of the loop.
"""
import asyncio
import inspect
import random
from collections import deque
from types import TracebackType
from typing import Any, Awaitable, Callable, Deque, Optional, Type, Union

from . import _ripc, server
from ._ripc import REPLY, COMPLETION, NOTICE, REQUEST, Message
from .errors import Again, Shutdown
from .types import Data, ServiceId

Handler = Callable[[Message], Union[Optional[Data], Awaitable[Optional[Data]]]]

LOOK_US = 50
LOOKS = 8           # in vain, until there is a pause
PAUSE = 64          # messages at most; drawn, so that two ends do not miss each other for ever
TURN = 64           # messages without an await, until others have their turn


class _Pending(asyncio.Future[Message]):
    """A cookie of a call or send that this module has begun."""


class Service:
    """One registered ID, for the tasks of one loop. raw is the ripc.Service, for all other calls."""

    def __init__(self, raw: _ripc.Service) -> None:
        self.raw = raw
        self._loop = asyncio.get_running_loop()
        self._ready: Any = getattr(self._loop, '_ready', ())
        self._messages: Deque[Message] = deque()
        self._waiting: Deque['asyncio.Future[None]'] = deque()
        self._refused: Deque['asyncio.Future[None]'] = deque()
        self._awaited: 'set[_Pending]' = set()
        self._looks = LOOKS
        self._pause = 0
        self._turn = 0
        self._ended = False
        self._fd = raw.fd()
        self._loop.add_reader(self._fd, self._drain)
        self._drain()

    @property
    def id(self) -> int:
        return self.raw.id

    # ---- messages -------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        """Delivers a message to the task that waits for it."""
        cookie = message.cookie
        if type(cookie) is _Pending:
            if not cookie.done() and message.kind in (REPLY, COMPLETION):
                self._conclude(cookie, message)
        elif message.kind == NOTICE and cookie is None and message.status == 0 \
                and not message.watched:
            _wake_all(self._refused)
        else:
            self._messages.append(message)
            _wake_one(self._waiting)

    @staticmethod
    def _conclude(pending: _Pending, message: Message) -> None:
        failure = message.exception()
        if failure:
            pending.set_exception(failure)
        else:
            pending.set_result(message)

    def _drain(self) -> None:
        """Takes all queued messages: only then does the descriptor become readable again."""
        try:
            while message := self.raw.look():
                self._take(message)
        except Shutdown:
            self._end()

    def _look(self) -> None:
        """Polls for 50 us if no other task is ready, as long as polling succeeds often enough."""
        if self._ready or self._ended:
            return
        if self._pause > 0:
            self._pause -= 1
            return
        try:
            message = self.raw.look(LOOK_US)
        except Shutdown:
            self._end()
            return
        if message is not None:
            self._looks = LOOKS
            self._take(message)
            return
        self._looks -= 1
        if self._looks == 0:
            self._looks, self._pause = LOOKS, random.randrange(PAUSE)

    # ---- receiving ------------------------------------------------------------------------

    def __aiter__(self) -> 'Service':
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except Shutdown:
            raise StopAsyncIteration from None

    async def receive(self) -> Message:
        """The next message that is no reply to a call() here."""
        self._turn += 1
        if self._turn % TURN == 0:
            await asyncio.sleep(0)
        if not self._messages:
            self._look()
        while not self._messages:
            if self._ended:
                raise self._closed()
            waiting = self._loop.create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    _wake_one(self._waiting)  # the next one may have what we were woken for
                raise
        return self._messages.popleft()

    # ---- asking and sending ---------------------------------------------------------------

    async def _result(self, pending: _Pending) -> Message:
        self._turn += 1
        if self._turn % TURN == 0:
            await asyncio.sleep(0)
        if not pending.done():
            self._look()
        if pending.done():
            return pending.result()
        if self._ended:
            raise self._closed()
        self._awaited.add(pending)
        try:
            return await pending
        except asyncio.CancelledError:
            if not self._ended:
                self._cancel(pending)
            raise
        finally:
            self._awaited.discard(pending)

    def _cancel(self, pending: _Pending) -> None:
        try:
            self.raw.cancel(pending)
        except OSError:
            pass  # the call has just ended

    async def _again(self) -> None:
        refused = self._loop.create_future()
        self._refused.append(refused)
        await refused

    async def call(self, to: ServiceId, data: Data, timeout: Optional[float] = None, *,
                   idempotent: bool = False, returns: Optional[Data] = None,
                   give: bool = False) -> Message:
        """Sends a request, and returns the reply. Cancelling the task cancels the call."""
        pending = _Pending(loop=self._loop)
        while True:
            try:
                self.raw.call_start(to, data, timeout, idempotent, returns=returns, give=give,
                                    cookie=pending)
                break
            except Again:
                await self._again()
        return await self._result(pending)

    async def send_long(self, to: ServiceId, data: Data, timeout: Optional[float] = None,
                        *, give: bool = False, ordered: bool = False) -> None:
        """Sends a message whole and once, and waits until it was delivered."""
        pending = _Pending(loop=self._loop)
        while True:
            try:
                self.raw.send(to, data, timeout, nowait=True, give=give, ordered=ordered,
                              cookie=pending)
                break
            except Again:
                await self._again()
        await self._result(pending)

    def send_short(self, to: ServiceId, data: Data) -> None:
        """Sends one datagram; it may get lost. Never waits."""
        self.raw.send_short(to, data)

    # ---- serving --------------------------------------------------------------------------

    async def _answer(self, answer: Awaitable[Optional[Data]], request: Message,
                      room: asyncio.Semaphore) -> None:
        try:
            server.reply(request, await answer)
        except Exception as failure:
            if not isinstance(failure, OSError):
                server.log.exception('the handler of a request failed')
            if not self._ended:
                server.refuse(request, server.error_of(failure))
        finally:
            room.release()

    async def _handle(self, handler: Handler, request: Message,
                      room: asyncio.Semaphore) -> 'Optional[asyncio.Task[None]]':
        try:
            answer = handler(request)
        except Exception as failure:
            if not isinstance(failure, OSError):
                server.log.exception('the handler of a request failed')
            server.refuse(request, server.error_of(failure))
            return None
        if not inspect.isawaitable(answer):
            server.reply(request, answer)
            return None
        await room.acquire()
        return self._loop.create_task(self._answer(answer, request, room))

    async def serve(self, handler: Handler, limit: int = 1000) -> None:
        """
        Answers requests by handler(message), a function or a coroutine function, of which at most
        limit run at a time, until the service is closed or drained, or this task cancelled. An
        exception of the handler is reported as by ripc.serve(). Other messages are dropped.
        """
        room = asyncio.Semaphore(limit)
        tasks: 'set[asyncio.Task[None]]' = set()
        try:
            async for message in self:
                if message.kind != REQUEST:
                    continue
                task = await self._handle(handler, message, room)
                if task:
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
            while tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()

    # ---- the end --------------------------------------------------------------------------

    @staticmethod
    def _closed() -> Shutdown:
        return Shutdown(108, 'ESHUTDOWN: the service is drained or closed')

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._loop.remove_reader(self._fd)
        _wake_all(self._waiting)
        _wake_all(self._refused)
        for pending in self._awaited:
            if not pending.done():
                pending.set_exception(self._closed())

    def close(self) -> None:
        """Ends the service: tasks that wait in it get Shutdown."""
        if not self.raw.closed:
            self._end()
            self.raw.close()

    async def __aenter__(self) -> 'Service':
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.close()


def _wake_one(waiting: 'Deque[asyncio.Future[None]]') -> None:
    while waiting:
        future = waiting.popleft()
        if not future.done():
            future.set_result(None)
            return


def _wake_all(waiting: 'Deque[asyncio.Future[None]]') -> None:
    while waiting:
        _wake_one(waiting)
