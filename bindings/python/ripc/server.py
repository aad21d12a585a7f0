# SPDX-License-Identifier: BSD-3-Clause
"""serve(): a complete server of calls."""
import errno
import logging
import threading
from typing import Callable, Optional

from ._ripc import REQUEST, Message, Service
from .errors import Error
from .types import Data

Handler = Callable[[Message], Optional[Data]]

log = logging.getLogger('ripc')


def error_of(failure: BaseException) -> int:
    """The errno that a client gets when a handler has failed."""
    number = failure.errno if isinstance(failure, OSError) else None
    return number if number and 0 < number <= 4095 else errno.EIO


def reply(request: Message, answer: Optional[Data]) -> None:
    """Replies. If the client is gone, that is no error of the server."""
    try:
        request.service.reply(request, answer)
    except Error as failure:
        if failure.errno in (errno.EMSGSIZE, errno.EINVAL, errno.ENOMEM):
            log.error('a reply could not be sent: %s', failure)
            refuse(request, failure.errno)
        else:
            raise


def refuse(request: Message, number: int) -> None:
    request.service.reply_error(request, number)


def handle(handler: Handler, request: Message) -> None:
    try:
        answer = handler(request)
    except Exception as failure:
        if not isinstance(failure, OSError):
            log.exception('the handler of a request failed')
        refuse(request, error_of(failure))
    else:
        reply(request, answer)


def loop(service: Service, handler: Handler) -> None:
    for message in service:
        if message.kind == REQUEST:
            handle(handler, message)


def serve(service: Service, handler: Handler, threads: int = 1) -> None:
    """
    Answers the requests that come to service by handler(message), which returns the data of the
    reply, or None for an empty one, until the service is closed or drained. An OSError that
    the handler raises is raised by the client's call; any other exception is logged, and is EIO
    there. Messages of other kinds are dropped. With threads above 1 the handler runs in as many.
    """
    others = [threading.Thread(target=loop, args=(service, handler), daemon=True)
              for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    loop(service, handler)
    for thread in others:
        thread.join()
