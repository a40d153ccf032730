"""Where units run: in this process, or in worker processes on this machine.

A worker reads units as JSON lines from standard input and answers with outcomes as JSON lines. It ends when its
standard input closes, so no worker outlives a runner that is killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, Protocol

from masp.experiments.cores import pin_to, usable_cores
from masp.experiments.plan import Unit, unit_from_json, unit_to_json
from masp.experiments.store import Store
from masp.experiments.work import Outcome, prepare_process, run_unit

DIED = "its process was killed"


class Executor(Protocol):
    """Runs units, a few at a time."""

    def free(self) -> int:
        """How many more units may start now."""
        ...

    def start(self, unit: Unit) -> None:
        """Start a unit."""
        ...

    def poll(self, seconds: float) -> list[Outcome]:
        """Outcomes since the last call; waits up to `seconds` for the first."""
        ...

    def close(self) -> None:
        """Stop all units that are still running."""
        ...


class InProcess:
    """One unit after the other, in this process."""

    def __init__(self, store: Store, command: str, report: Callable[[Unit, dict[str, Any]], None]):
        self._store, self._command, self._report = store, command, report
        self._outcomes: list[Outcome] = []

    def free(self) -> int:
        return 0 if self._outcomes else 1

    def start(self, unit: Unit) -> None:
        report = lambda progress: self._report(unit, progress)  # noqa: E731
        self._outcomes.append(run_unit(unit, self._store, self._command, report))

    def poll(self, seconds: float) -> list[Outcome]:
        del seconds
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def close(self) -> None:
        pass


class Processes:
    """Worker processes, each pinned to its share of the cores; a worker that dies is replaced."""

    def __init__(self, store: Store, command: str, jobs: int):
        self._store, self._command = store, command
        self._cores = _shares(usable_cores(), jobs)
        self._workers: list[_Worker | None] = [None] * jobs

    def free(self) -> int:
        return sum(worker is None or worker.unit is None for worker in self._workers)

    def start(self, unit: Unit) -> None:
        index = next(i for i, worker in enumerate(self._workers) if worker is None or worker.unit is None)
        worker = self._workers[index]
        if worker is None:
            worker = self._workers[index] = _Worker(self._store, self._command, index, self._cores[index])
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
    """The runner's end of one worker process."""

    def __init__(self, store: Store, command: str, index: int, cores: list[int]):
        logs = store.work / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._log: IO[bytes] = open(logs / f"{os.getpid()}-{index}.txt", "ab")  # noqa: SIM115 - closed by stop()
        arguments = [str(store.path), command, ",".join(map(str, cores))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "masp.experiments.executors", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self.answers = self._process.stdin, self._process.stdout
        self.unit: Unit | None = None

    def start(self, unit: Unit) -> None:
        self.unit = unit
        with contextlib.suppress(BrokenPipeError):  # it died while idle; `finish` notices
            self._requests.write(json.dumps(unit_to_json(unit)).encode() + b"\n")
            self._requests.flush()

    def finish(self) -> Outcome:
        """Read the answer; call when it is ready."""
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
        for stream in (self._log, self._requests, self.answers):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _shares(cores: list[int], jobs: int) -> list[list[int]]:
    """The cores of each of `jobs` processes; processes share cores when there are too few."""
    if jobs >= len(cores):
        return [[cores[i % len(cores)]] for i in range(jobs)]
    return [cores[i::jobs] for i in range(jobs)]


def worker_main() -> None:
    """The worker process: arguments are the store, the command for the records, and the cores."""
    from masp.training.origin import commit

    store_path, command, cores = sys.argv[1:]
    pin_to(int(core) for core in cores.split(","))
    # Answers go to the original standard output; whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    commit()  # of the source that runs here, before it can change
    store = Store(store_path)
    while True:
        unit = unit_from_json(json.loads(lines.get()))
        prepare_process(unit, store)
        outcome = run_unit(unit, store, command)
        print(json.dumps(dataclasses.asdict(outcome)), file=answers, flush=True)


def _read_lines(lines: queue.Queue[str]) -> None:
    """Queue the lines of standard input; end the process when it closes."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    worker_main()
