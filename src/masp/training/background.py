"""A thread that writes files while training goes on, in the order in which they were handed over."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

from masp.errors import TrainingError

MAX_WAITING = 64
"""Jobs that may wait; when the disk cannot keep up, training waits for it instead of filling the memory."""


class BackgroundWriter:
    """Runs jobs one after another; the first error ends it and is raised by the next call."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(MAX_WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="masp-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], None]) -> None:
        """Queue `job`; raises the error of an earlier job."""
        self._raise_error()
        self._jobs.put(job)

    def wait(self) -> None:
        """Return when all jobs are done; raises the error of one that failed."""
        self._jobs.join()
        self._raise_error()

    def close(self) -> None:
        """Finish the jobs that wait and end the thread; never raises, so that it can be called on the way out."""
        self._jobs.put(None)
        self._thread.join()

    def _raise_error(self) -> None:
        if self._error is not None:
            with os_errors_end_the_run():
                raise self._error

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                if self._error is None:
                    job()
            except BaseException as error:  # handed to the thread that trains
                self._error = error
            finally:
                self._jobs.task_done()
        self._jobs.task_done()


@contextlib.contextmanager
def os_errors_end_the_run() -> Iterator[None]:
    """Where files cannot be written, as on a full disk, raise the `TrainingError` that says so."""
    try:
        yield
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        raise TrainingError(
            f"{path}cannot write: {error.strerror or error}; the last checkpoint is whole, --resume goes on from it"
        ) from error
