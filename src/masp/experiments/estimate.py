"""How long units will take: from earlier records of the same kind, otherwise from figures measured once.

The figures are frames per second of one core of a small virtual machine, for planning only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from statistics import median
from typing import Any

from masp.config import TrainConfig
from masp.environments.registry import family_of
from masp.experiments.plan import Plan, Unit
from masp.experiments.store import Record, Store

FRAMES_PER_SECOND: dict[str, float] = {
    # environment family: frames per second and core of `macros` with the environment's own macros; planted, MiniGrid
    # and MinAtar are medians of the records in `results/`, the others are assumed
    "planted": 17_000.0,
    "MiniGrid": 3_500.0,
    "MinAtar": 3_200.0,
    "Atari": 120.0,
    "retro games": 60.0,
    "Street Fighter II": 60.0,
    "Gymnasium": 1_500.0,
}
MASP_COST = 1.15
"""Time of `masp` over that of `macros`, as measured on Atari; 1.1 on MiniGrid (docs/performance.md)."""
OPTION_SPEEDS = {"size=42": 4.0}
"""Speed-up by an option of the environment: images of 42 x 42 instead of 84 x 84."""
START_SECONDS = 20.0
"""Compilation, filling the replay and evaluation, per unit."""

Speeds = dict[tuple[str, str, int | None], float]


def speeds_of(records: Iterable[Record]) -> Speeds:
    """Frames per second by environment, variant and number of mined macros."""
    samples: dict[tuple[str, str, int | None], list[float]] = defaultdict(list)
    for record in records:
        if record["frames_per_second"]:
            samples[record["env"], record["variant"], record["k"]].append(record["frames_per_second"])
    return {key: median(values) for key, values in samples.items()}


def seconds_of(unit: Unit, speeds: Speeds) -> float:
    """Time of a unit on one core."""
    trial = unit.trial
    factor = prod(OPTION_SPEEDS.get(option, 1.0) for option in trial.env_options)
    speed = speeds.get(_kind(unit)) or factor * _guess(*_kind(unit))
    return START_SECONDS + unit.frames / speed


def _kind(unit: Unit) -> tuple[str, str, int | None]:
    """Environment, variant and number of mined macros: units of the same kind are equally fast."""
    trial = unit.trial
    return trial.env, trial.variant, None if trial.macros is None or trial.macros.play is None else trial.macros.k


def run_seconds(config: TrainConfig, macros: int) -> float:
    """Time of one run of `masp train` on one core."""
    factor = prod(OPTION_SPEEDS.get(option, 1.0) for option in config.env_options)
    own = family_of(config.env).name in ("planted", "Street Fighter II")  # with their own macros they were measured
    variant = "masp" if config.penalised else config.variant
    return START_SECONDS + config.frames / (factor * _guess(config.env, variant, None if own else macros))


@cache
def _guess(env: str, variant: str, k: int | None) -> float:
    speed = FRAMES_PER_SECOND.get(family_of(env).name, FRAMES_PER_SECOND["Gymnasium"])
    growth = 1 + (k or 0) / 256  # the heads grow with the number of actions
    return speed / growth / (MASP_COST if variant == "masp" else 1.0)


def total_seconds(units: Sequence[Unit], speeds: Speeds, jobs: int) -> float:
    """Wall time of units on `jobs` processes; at least that of the longest chain of units that wait for each other."""
    ends: dict[tuple[str, int], float] = {}
    work = 0.0
    for unit in units:  # each comes after those that it needs
        seconds = seconds_of(unit, speeds)
        end = seconds + max((ends.get(need, 0.0) for need in unit.needs), default=0.0)
        ends |= {(unit.trial_id, seed): end for seed in unit.seeds}
        work += seconds
    return max(work / max(jobs, 1), max(ends.values(), default=0.0))


def summary(plan: Plan, store: Store, jobs: int, cluster_cores: int = 1024) -> dict[str, Any]:
    """The size of a plan, what of it is finished, and how long the rest may take."""
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
        "core_seconds_assumed": sum(seconds_of(unit, speeds) for unit in left if _kind(unit) not in speeds),
        "seconds_left": total_seconds(left, speeds, jobs),
        "jobs": jobs,
        "cluster_cores": cluster_cores,
        "cluster_seconds_left": total_seconds(left, speeds, cluster_cores),
    }


def duration(seconds: float) -> str:
    """`90.0` to `1.5 min`."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 20 * size else f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.0f} s"
