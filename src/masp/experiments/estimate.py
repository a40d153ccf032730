"""How long units will take: from earlier records of the same kind, else from figures measured once.

The figures are frames per second of one core of a small virtual machine; they are for planning only.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from statistics import median

from masp.environments.registry import family_of
from masp.experiments.plan import Unit
from masp.experiments.store import Record

FRAMES_PER_SECOND: dict[str, float] = {
    # environment family: frames per second and core of `macros` with the environment's own macros
    "planted": 8_000.0,
    "MiniGrid": 2_500.0,
    "MinAtar": 2_000.0,
    "Atari": 120.0,
    "retro games": 60.0,
    "Street Fighter II": 60.0,
    "Gymnasium": 1_500.0,
}
MASP_COST = 1.5
"""Time of `masp` over that of `macros`."""
OPTION_SPEEDS = {"size=42": 4.0}
"""How much quicker an option of the environment makes a run; 42 x 42 instead of 84 x 84."""
START_SECONDS = 20.0
"""Compiling, filling the replay and evaluating, per unit."""

Speeds = dict[tuple[str, str, int | None], float]


def speeds_of(records: Iterable[Record]) -> Speeds:
    """Frames per second by environment, variant and number of mined macros."""
    seen: dict[tuple[str, str, int | None], list[float]] = defaultdict(list)
    for record in records:
        if record["frames_per_second"]:
            seen[record["env"], record["variant"], record["k"]].append(record["frames_per_second"])
    return {key: median(values) for key, values in seen.items()}


def seconds_of(unit: Unit, speeds: Speeds) -> float:
    """Time that a unit takes on one core."""
    trial = unit.trial
    k = None if trial.macros is None or trial.macros.play is None else trial.macros.k
    seen = speeds.get((trial.env, trial.variant, k))
    guessed = _guess(trial.env, trial.variant, k) * prod(OPTION_SPEEDS.get(option, 1.0) for option in trial.env_options)
    return START_SECONDS + unit.frames / (seen or guessed)


@cache
def _guess(env: str, variant: str, k: int | None) -> float:
    speed = FRAMES_PER_SECOND.get(family_of(env).name, FRAMES_PER_SECOND["Gymnasium"])
    many = 1 + (k or 0) / 256  # the heads grow with the actions
    return speed / many / (MASP_COST if variant == "masp" else 1.0)


def total_seconds(units: Sequence[Unit], speeds: Speeds, jobs: int) -> float:
    """Wall time of units on so many processes; never shorter than the longest chain of units that wait for another."""
    ends: dict[tuple[str, int], float] = {}
    work = 0.0
    for unit in units:  # each comes after those that it needs
        seconds = seconds_of(unit, speeds)
        end = seconds + max((ends.get(need, 0.0) for need in unit.needs), default=0.0)
        ends |= {(unit.trial_id, seed): end for seed in unit.seeds}
        work += seconds
    return max(work / max(jobs, 1), max(ends.values(), default=0.0))


def duration(seconds: float) -> str:
    """`90.0` to `2 min`."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 20 * size else f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.0f} s"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
