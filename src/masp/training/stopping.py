"""Stopping is normal: a signal lets the running chunk finish, so that everything can be saved.

SIGINT (Ctrl-C), SIGTERM and SIGHUP set a flag that training looks at between chunks of about a second. A second signal
ends the process at once. Handlers are installed only while training runs, only in the main thread, and only in place
of the default ones: a handler that somebody else installed stays.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class StoppedBySignal(KeyboardInterrupt):
    """Training was stopped by a signal, after everything was saved."""

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.number, self.message = number, message

    @property
    def exit_code(self) -> int:
        """128 plus the signal's number, as shells have it: 130, 143 or 129."""
        return 128 + self.number

    def __str__(self) -> str:
        return self.message


class StopRequest:
    """Whether a signal asked training to stop; a context manager that listens."""

    def __init__(self) -> None:
        self.number = 0
        """The signal that came; 0: none."""
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) in _DEFAULTS:
                    self._previous[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _received(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = number
        self._restore()  # the next signal does what it always does

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
