# SPDX-License-Identifier: BSD-3-Clause
"""serve(): a server of calls in a line."""
import errno
import logging
import threading
from typing import Callable, Optional

from ._ripc import QUESTION, Message, Service
from .errors import Error
from .types import Data

Handler = Callable[[Message], Optional[Data]]

log = logging.getLogger('ripc')


def error_of(failure: BaseException) -> int:
    """The errno that an asker is told when a handler has failed."""
    number = failure.errno if isinstance(failure, OSError) else None
    return number if number and 0 < number <= 4095 else errno.EIO


def reply(question: Message, answer: Optional[Data]) -> None:
    """Answers; that nobody wants the answer any more is no error of the server."""
    try:
        question.service.reply(question, answer)
    except Error as failure:
        if failure.errno in (errno.EMSGSIZE, errno.EINVAL, errno.ENOMEM):
            log.error('an answer could not be sent: %s', failure)
            refuse(question, failure.errno)
        elif failure.errno not in (errno.ENOENT, errno.EAGAIN):
            raise


def refuse(question: Message, number: int) -> None:
    try:
        question.service.reply_error(question, number)
    except Error as failure:
        if failure.errno not in (errno.ENOENT, errno.EAGAIN):
            raise


def handle(handler: Handler, question: Message) -> None:
    try:
        answer = handler(question)
    except Exception as failure:
        if not isinstance(failure, OSError):
            log.exception('the handler of a question failed')
        refuse(question, error_of(failure))
    else:
        reply(question, answer)


def loop(service: Service, handler: Handler) -> None:
    for message in service:
        if message.kind == QUESTION:
            handle(handler, message)


def serve(service: Service, handler: Handler, threads: int = 1) -> None:
    """
    Answers the questions that come to service by handler(message), which returns the data of the
    answer, or None for an empty one, until the service is closed or drained. An OSError that
    the handler raises is what the asker's call raises; any other exception is logged, and is EIO
    there. What is no question is dropped. With threads above 1 the handler runs in as many.
    """
    others = [threading.Thread(target=loop, args=(service, handler), daemon=True)
              for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    loop(service, handler)
    for thread in others:
        thread.join()
