"""Runs the units of a plan: skips finished ones, waits for those of other processes, goes on when one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from masp.environments.registry import family_of
from masp.experiments import claims
from masp.experiments.display import Display
from masp.experiments.estimate import speeds_of
from masp.experiments.executors import DIED, Executor, InProcess, Processes
from masp.experiments.plan import Plan, Unit, plan_data
from masp.experiments.store import Store
from masp.experiments.work import Outcome
from masp.ops import cache_programs
from masp.training.origin import commit

ATTEMPTS = 3
"""How often a unit is started whose process gets killed."""
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Where:
    """Where the units run."""

    jobs: int = 1
    """Processes on this machine; 1: this process itself."""
    ray: str = ""
    """Address of a Ray cluster, `auto` for a local one; empty: no Ray."""
    cpus_per_unit: float = 1.0
    gpus_per_unit: float = 0.0
    """Resources that Ray reserves for each unit."""


def require_installed(plan: Plan) -> None:
    """Raise before anything runs if a package is missing."""
    for env, options in sorted({(unit.trial.env, unit.trial.env_options) for unit in plan.units}):
        family = family_of(env)
        family.require_installed(env)
        for package in family.backends:
            if f"backend={package.module}" in options:
                package.require_installed(f"{env} with backend={package.module}")


def reproduce(plan: Plan, store: Store, where: Where, command: str) -> dict[str, str]:
    """Run what is not finished; returns the labels of the units that failed, with the reason."""
    commit()  # of the source that runs here, before it can change
    store.write_plan(plan.experiment.name, plan.scale, plan_data(plan))
    records = store.records()
    left = [unit for unit in plan.units if not store.finished(unit.trial_id, unit.seeds)]
    if not left:
        return {}
    with Display(left, speeds_of(records.values()), where.jobs) as display:
        executor = _executor(where, store, command, display)
        try:
            failed = run_units(left, store, executor, display)
        finally:
            executor.close()
    labels = {unit.id: unit.label for unit in left}
    return {f"{labels[unit_id]} ({unit_id})": reason for unit_id, reason in failed.items()}


def _executor(where: Where, store: Store, command: str, display: Display) -> Executor:
    if where.ray:
        from masp.experiments.ray_executor import RayExecutor

        return RayExecutor(store, command, where.ray, where.cpus_per_unit, where.gpus_per_unit)
    if where.jobs > 1:
        return Processes(store, command, where.jobs)
    cache_programs(store.work / "compiled")
    return InProcess(store, command, display.progress)


@dataclass
class _State:
    """The state of one call of `run_units`."""

    store: Store
    executor: Executor
    display: Display
    pending: dict[str, Unit]
    running: dict[str, Unit] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Unit id to reason."""
    attempts: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    """When to look again at a unit that another process has claimed."""


def run_units(
    units: Sequence[Unit],
    store: Store,
    executor: Executor,
    display: Display,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, str]:
    """Run all units that are not finished; returns the ids of those that failed, with the reason."""
    run = _State(store, executor, display, {unit.id: unit for unit in units})
    while True:
        _drop_finished(run)
        _drop_blocked(run)
        if not run.pending and not run.running:
            return run.failed
        for unit in _ready(run, clock()):
            if not executor.free():
                break
            del run.pending[unit.id]
            run.running[unit.id] = unit
            executor.start(unit)
        if not run.running:  # other processes have claimed all that is left
            time.sleep(POLL_SECONDS)
        for outcome in executor.poll(POLL_SECONDS):
            _handle(run, outcome, clock())
        _show(run)


def _drop_finished(run: _State) -> None:
    run.store.records()
    for unit in list(run.pending.values()):
        if run.store.finished(unit.trial_id, unit.seeds):
            del run.pending[unit.id]
            run.display.ended(unit, Outcome(unit.id, "done"))


def _drop_blocked(run: _State) -> None:
    """Fail the units that need a failed unit."""
    failed = {(unit_id.partition("-")[0], seed) for unit_id in run.failed for seed in _seeds(unit_id)}
    for unit in list(run.pending.values()):
        if failed & set(unit.needs):
            del run.pending[unit.id]
            run.failed[unit.id] = "not run: a trial that it needs failed"
            run.display.ended(unit, Outcome(unit.id, "failed", run.failed[unit.id]))


def _seeds(unit_id: str) -> list[int]:
    return [int(seed) for seed in unit_id.split("-")[1:]]


def _ready(run: _State, now: float) -> list[Unit]:
    """Units that may start now, in the order of the plan."""
    records = run.store.records()
    return [
        unit
        for unit in run.pending.values()
        if all(need in records for need in unit.needs) and run.not_before.get(unit.id, 0.0) <= now
    ]


def _handle(run: _State, outcome: Outcome, now: float) -> None:
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
    run.display.ended(unit, outcome)


def _show(run: _State) -> None:
    """Show the progress of running units, also of other processes: claims report it."""
    for unit in [*run.running.values(), *run.pending.values()]:
        if unit.id in run.running or unit.id in run.not_before:
            state = claims.holder(run.store.work / "claims" / unit.id)
            if state is not None:
                run.display.progress(unit, state["progress"])
