"""Where units run: in this process, or in a few processes of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, Protocol

from masp.experiments.plan import Unit, unit_to_json
from masp.experiments.store import Store
from masp.experiments.work import Outcome, run_unit

DIED = "its process was killed"


class Executor(Protocol):
    """Runs units, a few at a time."""

    def free(self) -> int:
        """How many more units may start now."""
        ...

    def start(self, unit: Unit) -> None:
        """Begin a unit."""
        ...

    def poll(self, seconds: float) -> list[Outcome]:
        """Units that ended since the last call; waits up to so long for the first."""
        ...

    def close(self) -> None:
        """Stop whatever still runs."""
        ...


class InProcess:
    """One unit after the other, here."""

    def __init__(self, store: Store, command: str, report: Callable[[Unit, dict[str, Any]], None]):
        self._store, self._command, self._report = store, command, report
        self._ended: list[Outcome] = []

    def free(self) -> int:
        return 0 if self._ended else 1

    def start(self, unit: Unit) -> None:
        report = lambda progress: self._report(unit, progress)  # noqa: E731
        self._ended.append(run_unit(unit, self._store, self._command, report))

    def poll(self, seconds: float) -> list[Outcome]:
        del seconds
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        pass


class Processes:
    """Worker processes, each on its share of the cores; one that dies is replaced."""

    def __init__(self, store: Store, command: str, jobs: int):
        self._store, self._command = store, command
        self._cores = _shares(sorted(os.sched_getaffinity(0)), jobs)
        self._workers: list[_Worker | None] = [None] * jobs

    def free(self) -> int:
        return sum(worker is None or worker.unit is None for worker in self._workers)

    def start(self, unit: Unit) -> None:
        place = next(i for i, worker in enumerate(self._workers) if worker is None or worker.unit is None)
        worker = self._workers[place]
        if worker is None:
            worker = self._workers[place] = _Worker(self._store, self._command, place, self._cores[place])
        worker.start(unit)

    def poll(self, seconds: float) -> list[Outcome]:
        busy = {i: worker for i, worker in enumerate(self._workers) if worker is not None and worker.unit is not None}
        with selectors.DefaultSelector() as selector:
            for i, worker in busy.items():
                selector.register(worker.answers, selectors.EVENT_READ, i)
            ready = [key.data for key, _ in selector.select(seconds)]
        outcomes = []
        for i in ready:
            outcomes.append(busy[i].finish())
            if outcomes[-1].message == DIED:
                self._workers[i] = None
        return outcomes

    def close(self) -> None:
        for worker in self._workers:
            if worker is not None:
                worker.stop()


class _Worker:
    """One process that takes units as JSON lines and answers with outcomes."""

    def __init__(self, store: Store, command: str, place: int, cores: list[int]):
        logs = store.work / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._log: IO[bytes] = open(logs / f"{os.getpid()}-{place}.txt", "ab")  # noqa: SIM115 - closed by stop()
        arguments = [str(store.path), command, ",".join(map(str, cores))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "masp.experiments.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self.answers = self._process.stdin, self._process.stdout
        self.unit: Unit | None = None

    def start(self, unit: Unit) -> None:
        self.unit = unit
        with contextlib.suppress(BrokenPipeError):  # it died while idle; `finish` finds out
            self._questions.write(json.dumps(unit_to_json(unit)).encode() + b"\n")
            self._questions.flush()

    def finish(self) -> Outcome:
        """The answer that is there to be read."""
        assert self.unit is not None
        unit, self.unit = self.unit, None
        line = self.answers.readline()
        if not line.endswith(b"\n"):
            self.stop()
            return Outcome(unit.id, "failed", DIED)
        return Outcome(**json.loads(line))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._log, self._questions, self.answers):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _shares(cores: list[int], jobs: int) -> list[list[int]]:
    """The cores of each of `jobs` processes; they share when there are fewer cores than processes."""
    if jobs >= len(cores):
        return [[cores[i % len(cores)]] for i in range(jobs)]
    return [cores[i::jobs] for i in range(jobs)]
