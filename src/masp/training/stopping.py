"""Stopping is normal: a signal lets the running chunk finish, so that everything can be saved.

SIGINT (Ctrl-C), SIGTERM and SIGHUP set a flag that training looks at between chunks of about a second. A second signal
ends the process at once. Handlers are installed only while training runs, only in the main thread, and only in place
of the default ones: a handler that somebody else installed stays.

Python runs a handler only between two of its instructions. A compilation is one instruction that can take a minute, and
all signals that come meanwhile look like one; `_Watcher` therefore hears of them in a thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
PATIENCE_SECONDS = 1.0
"""How long a first signal may go without effect before a line says so, and a second before the process is ended."""
CLEAR_LINE = "\r\x1b[K"


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
        self._watcher: _Watcher | None = None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) in _DEFAULTS:
                    self._previous[number] = signal.signal(number, self._received)
            if self._previous and _Watcher.helps():
                self._watcher = _Watcher(frozenset(self._previous))
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.close()
        self._restore()

    def _received(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = number
        self._restore()  # the next signal does what it always does

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


class _Watcher:
    """Hears of signals in a thread, also while the main thread is inside a compilation.

    Says that training will stop if that takes a while, and ends the process if a second signal could not.
    """

    def __init__(self, numbers: frozenset[int]):
        self._numbers = numbers
        self._ended = threading.Event()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="masp-signals", daemon=True)
        self._thread.start()

    @staticmethod
    def helps() -> bool:
        """Whether to listen: not in an interactive process, which holds more than this training."""
        if os.name != "posix" or hasattr(sys, "ps1"):
            return False
        listening = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(listening)
        return listening == -1  # otherwise an event loop has the place

    def close(self) -> None:
        """Stop listening: the main thread can be reached."""
        self._ended.set()
        signal.set_wakeup_fd(-1)
        os.close(self._writer)  # the end of what the thread reads
        self._thread.join()
        os.close(self._reader)

    def _listen(self) -> None:
        heard = 0
        while number := int.from_bytes(os.read(self._reader, 1), "little"):
            if number not in self._numbers:
                continue
            heard += 1
            if self._ended.wait(PATIENCE_SECONDS):
                return
            if heard > 1:
                os._exit(128 + number)
            _say("stopping after what is being computed now, then saving; a second signal ends at once")


def _say(text: str) -> None:
    """A line on stderr that a bar of progress does not tear."""
    with contextlib.suppress(OSError):
        os.write(2, f"{CLEAR_LINE if os.isatty(2) else ''}masp: {text}\n".encode())


def _deaf() -> None:
    """A forked process must not tell its parent of its own signals."""
    with contextlib.suppress(ValueError):
        signal.set_wakeup_fd(-1)


if os.name == "posix":
    os.register_at_fork(after_in_child=_deaf)
