"""Runs the units of a plan: skips what is finished, waits for what others run, goes on when one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from masp.experiments import claims
from masp.experiments.executors import DIED, Executor
from masp.experiments.plan import Unit
from masp.experiments.store import Store
from masp.experiments.work import Outcome

ATTEMPTS = 3
"""How often a unit is started whose process gets killed."""
POLL_SECONDS = 1.0


class Watcher(Protocol):
    """Who wants to know how it goes."""

    def progress(self, unit: Unit, said: dict[str, Any]) -> None: ...

    def ended(self, unit: Unit, outcome: Outcome) -> None: ...


@dataclass
class Run:
    """The state of one call of `run_units`."""

    store: Store
    executor: Executor
    watcher: Watcher
    pending: dict[str, Unit]
    running: dict[str, Unit] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Unit id to what went wrong."""
    attempts: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    """When a unit that another process has is looked at again."""


def run_units(
    units: Sequence[Unit],
    store: Store,
    executor: Executor,
    watcher: Watcher,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, str]:
    """Run all units that are not finished; the ids of those that failed, with the reason."""
    run = Run(store, executor, watcher, {unit.id: unit for unit in units})
    while True:
        _drop_finished(run)
        _drop_hopeless(run)
        if not run.pending and not run.running:
            return run.failed
        for unit in _ready(run, clock()):
            if not executor.free():
                break
            del run.pending[unit.id]
            run.running[unit.id] = unit
            executor.start(unit)
        if not run.running:  # all that is left is with other processes
            time.sleep(POLL_SECONDS)
        for outcome in executor.poll(POLL_SECONDS):
            _take(run, outcome, clock())
        _show(run)


def _drop_finished(run: Run) -> None:
    run.store.records()
    for unit in list(run.pending.values()):
        if run.store.finished(unit.trial_id, unit.seeds):
            del run.pending[unit.id]
            run.watcher.ended(unit, Outcome(unit.id, "done"))


def _drop_hopeless(run: Run) -> None:
    """What needs a unit that failed cannot run."""
    failed = {(unit_id.partition("-")[0], seed) for unit_id in run.failed for seed in _seeds(unit_id)}
    for unit in list(run.pending.values()):
        if failed & set(unit.needs):
            del run.pending[unit.id]
            run.failed[unit.id] = "not run: a trial that it needs failed"
            run.watcher.ended(unit, Outcome(unit.id, "failed", run.failed[unit.id]))


def _seeds(unit_id: str) -> list[int]:
    return [int(seed) for seed in unit_id.split("-")[1:]]


def _ready(run: Run, now: float) -> list[Unit]:
    """Units that may start, in the order of the plan."""
    records = run.store.records()
    return [
        unit
        for unit in run.pending.values()
        if all(need in records for need in unit.needs) and run.not_before.get(unit.id, 0.0) <= now
    ]


def _take(run: Run, outcome: Outcome, now: float) -> None:
    unit = run.running.pop(outcome.unit_id)
    if outcome.state == "busy":
        run.not_before[unit.id] = now + 2 * POLL_SECONDS
        run.pending[unit.id] = unit
        return
    if outcome.message == DIED:
        run.attempts[unit.id] = run.attempts.get(unit.id, 0) + 1
        if run.attempts[unit.id] < ATTEMPTS:
            run.pending[unit.id] = unit
            return
        logs = run.store.work / "logs"
        outcome = Outcome(unit.id, "failed", f"{DIED} {ATTEMPTS} times (out of memory?); see {logs}")
    if outcome.state == "failed":
        run.failed[unit.id] = outcome.message
    run.watcher.ended(unit, outcome)


def _show(run: Run) -> None:
    """Progress of what runs, wherever it runs: claims say it."""
    for unit in [*run.running.values(), *run.pending.values()]:
        if unit.id in run.running or unit.id in run.not_before:
            said = claims.holder(run.store.work / "claims" / unit.id)
            if said is not None:
                run.watcher.progress(unit, said["progress"])
