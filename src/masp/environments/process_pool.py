"""Processes that answer requests: started, asked and ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import gymnasium
import numpy as np

from masp.environments.process_worker import serve
from masp.errors import UserError

SECONDS_TO_END = 5.0
"""How long a process may take to end by itself once its pipe is closed."""


class ProcessError(RuntimeError):
    """An environment failed, or its process died."""


class Worker:
    """A process and our end of its pipe."""

    def __init__(self, name: str, process: SpawnProcess, pipe: Connection):
        self.name, self.process, self.pipe = name, process, pipe

    def send(self, request: tuple[str, Any]) -> None:
        try:
            self.pipe.send(request)
        except OSError:
            raise self._death() from None

    def receive(self) -> Any:
        try:
            kind, result = self.pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "mistake":
            raise UserError(result)
        if kind == "failure":
            raise ProcessError(f"{self.name} failed:\n{result}")
        return result

    def _death(self) -> ProcessError:
        self.process.join(SECONDS_TO_END)
        return ProcessError(f"{self.name}: its process died with exit code {self.process.exitcode}")


def start(workers: list[Worker], name: str, make: Callable[[], gymnasium.Env], observation: np.ndarray) -> np.ndarray:
    """Start one process for each row of `observation` [N, ...] and add it to `workers`.

    Returns memory of that shape, in which the processes put their observations.
    """
    # Spawned, because a forked copy of a process that runs JAX can hang. The memory has no name and needs no cleaning
    # up, whoever dies.
    context = multiprocessing.get_context("spawn")
    memory = context.RawArray("B", observation.nbytes)
    with _without_interrupts():
        for i, row in enumerate(observation):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, make, memory, i, row), daemon=True)
            process.start()
            theirs.close()  # so that the pipe ends with the process
            workers.append(Worker(f"environment {i} ({name})", process, ours))
    return np.frombuffer(memory, observation.dtype).reshape(observation.shape)


def end(workers: list[Worker]) -> None:
    """Close every pipe, at which its process ends; kill those that do not."""
    for worker in workers:
        worker.pipe.close()
    for worker in workers:
        worker.process.join(SECONDS_TO_END)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
    workers.clear()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started here never see Ctrl-C, not even while they start; ours comes when this is over."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
