"""From the name of an experiment to its finished results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from masp.environments.registry import family_of
from masp.experiments import provenance
from masp.experiments.display import Display
from masp.experiments.estimate import seconds_of, speeds_of, total_seconds
from masp.experiments.executors import Executor, InProcess, Processes
from masp.experiments.identity import trial_id
from masp.experiments.plan import Plan
from masp.experiments.runner import run_units
from masp.experiments.store import Store


@dataclass(frozen=True)
class Where:
    """What runs the units."""

    jobs: int = 1
    """Processes on this machine; 1: this process itself."""
    ray: str = ""
    """Address of a Ray cluster, `auto` for a local one; empty: no Ray."""
    cpus_per_unit: float = 1.0
    gpus_per_unit: float = 0.0
    """Resources that Ray keeps for each unit."""


def summary(plan: Plan, store: Store, jobs: int, cluster_cores: int = 1024) -> dict[str, Any]:
    """The plan in figures: how much there is, how much is finished, how long the rest may take."""
    records = store.records()
    left = [unit for unit in plan.units if not store.finished(unit.trial_id, unit.seeds)]
    speeds = speeds_of(records.values())
    return {
        "experiment": plan.experiment.name,
        "scale": plan.scale,
        "cells": len(plan.cells),
        "trials": plan.trials,
        "runs": sum(len(unit.seeds) for unit in plan.units),
        "runs_left": sum(len(unit.seeds) for unit in left),
        "units_left": len(left),
        "frames": sum(unit.frames for unit in plan.units),
        "frames_left": sum(unit.frames for unit in left),
        "core_seconds_left": sum(seconds_of(unit, speeds) for unit in left),
        "seconds_left": total_seconds(left, speeds, jobs),
        "jobs": jobs,
        "cluster_cores": cluster_cores,
        "cluster_seconds_left": total_seconds(left, speeds, cluster_cores),
    }


def plan_data(plan: Plan) -> dict[str, Any]:
    """What the store keeps of a plan: enough to print the table without running anything."""
    experiment = plan.experiment
    return {
        "experiment": experiment.name,
        "scale": plan.scale,
        "title": (experiment.titles or {}).get(plan.scale, experiment.title),
        "measure": experiment.measure,
        "judged": experiment.judged,
        "row_names": list(experiment.row_names),
        "paper_table": experiment.paper_table,
        "kind": experiment.kind,
        "note": (experiment.notes or {}).get(plan.scale, ""),
        **({"human": True} if plan.human else {}),
        "cells": [
            {
                "row": list(cell.row),
                "column": cell.column,
                "trial": trial_id(cell.trial),
                "seeds": list(cell.trial.seeds),
                "control": cell.trial.control,
                "env": cell.trial.env,
                "frames": cell.trial.frames,
            }
            for cell in plan.cells
        ],
    }


def require_installed(plan: Plan) -> None:
    """Raise before anything runs if a package is missing."""
    for env, options in sorted({(unit.trial.env, unit.trial.env_options) for unit in plan.units}):
        family = family_of(env)
        family.require_installed(env)
        for package in family.backends:
            if f"backend={package.module}" in options:
                package.require_installed(f"{env} with backend={package.module}")


def reproduce(plan: Plan, store: Store, where: Where, command: str) -> dict[str, str]:
    """Run what is not finished; labels of the units that failed, with the reason."""
    provenance.commit()  # of the source as it is now, not as it may be when the last unit ends
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
    from masp.experiments.compilation import keep_compiled_programs

    keep_compiled_programs(store)
    return InProcess(store, command, display.progress)
