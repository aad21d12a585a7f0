# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions. Each has the errno, and a sentence with a remedy."""
import builtins
import errno as _errno
from typing import Optional


class Error(OSError):
    """An error of the library: errno, strerror, and for a send or call its outcome."""

    outcome: int = 0
    """NOT_DELIVERED, DELIVERED or UNKNOWN; 0 where nothing was sent."""


class TimedOut(Error, builtins.TimeoutError):
    """ETIMEDOUT: timeout."""


class Again(Error, builtins.BlockingIOError):
    """EAGAIN: no message is queued, or too many operations are in progress."""


class NotFound(Error):
    """ENOENT: the service or the cookie was not found."""


class Reset(Error, builtins.ConnectionResetError):
    """ECONNRESET: the outcome of a send is unknown, or a server has ended."""


class Interrupted(Error, builtins.InterruptedError):
    """EINTR: wake() was called."""


class Shutdown(Error):
    """ESHUTDOWN: the service or the context is closed or drained."""


class Forked(Error):
    """EOWNERDEAD: the context belongs to the parent process."""


class Remote(Error):
    """The server replied with this error: reply_error()."""


_CLASSES = {
    _errno.ETIMEDOUT: TimedOut,
    _errno.EAGAIN: Again,
    _errno.ENOENT: NotFound,
    _errno.ECONNRESET: Reset,
    _errno.EINTR: Interrupted,
    _errno.ESHUTDOWN: Shutdown,
    _errno.EOWNERDEAD: Forked,
}
_REMOTE = 'the server has replied with this error'


def make(error: int, outcome: int, sentence: str, note: Optional[str]) -> Error:
    """The exception for an errno; called by the extension."""
    name = _errno.errorcode.get(error, f'error {error}')
    text = f'{name}: {sentence}' + (f' ({note})' if note else '')
    made = (Remote if note == _REMOTE else _CLASSES.get(error, Error))(error, text)
    made.outcome = outcome
    return made
