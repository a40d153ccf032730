"""Speed of whole training runs at the presets, environment included.

`overhead`: what meta-learning the similarity and what macros cost, as wall time of `masp` over `macros` and of `macros`
over `rainbow`, for the same frames; on the planted grid also `outcomes` over `macros`.
`throughput`: steps and updates per second of `rainbow`. Absolute figures depend on the machine and its load; ratios are
of one run. The comparison with other libraries is `benchmarks/peers.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from masp.bench.turns import Training, in_own_process, in_turns, ratio
from masp.config import replace
from masp.environments.registry import family_of
from masp.presets import from_preset

Case = tuple[str, dict[str, Any], int]
"""Environment, changes to its preset, ticks per turn; a tick is one step of every environment."""

SMALL_REPLAY = {"replay_steps": 20_000, "min_replay_steps": 1_000}
OVERHEAD_CASES: dict[str, Case] = {
    "planted": ("planted-grid", {"env_options": ("copies=8",)}, 400),
    "minigrid": ("DoorKey-5x5", {}, 60),
    "minatar": ("minatar-breakout", {}, 128),
    "gymnasium": ("CartPole-v1", {}, 200),
    "atari": ("Breakout", SMALL_REPLAY, 8),
}
RATIOS = (("masp", "macros"), ("macros", "rainbow"))
THROUGHPUT_CASES: dict[str, Case] = {
    "minigrid": ("DoorKey-5x5", {"env_options": ("backend=minigrid",)}, 100),
    "minigrid_envpool": ("DoorKey-5x5", {"env_options": ("backend=envpool",)}, 100),
    "minatar": ("minatar-breakout", {}, 200),
    "atari": ("Breakout", SMALL_REPLAY, 10),
}
THROUGHPUT_PROCESSES = (("minigrid", "minigrid_envpool", "minatar"), ("atari",))
"""Cases that share a process, because their networks have similar sizes."""


def overhead(quick: bool = False) -> dict[str, Any]:
    """Measure every case whose environment is installed; `quick` only shows that it works."""
    turns = 3 if quick else 9
    figures: dict[str, Any] = {"turns": turns}
    for name, (env, _, _) in OVERHEAD_CASES.items():
        if family_of(env).installed:
            figures.update(in_own_process(_overhead, name, turns, quick))
        else:
            figures[name] = f"not measured: {family_of(env).install_line}"
    return figures


def _overhead(name: str, turns: int, quick: bool) -> dict[str, Any]:
    """One case."""
    ratios = (*RATIOS, ("outcomes", "macros")) if name == "planted" else RATIOS
    variants = dict.fromkeys(variant for pair in ratios for variant in pair)
    work = {variant: _training(OVERHEAD_CASES[name], variant, quick) for variant in variants}
    seconds = in_turns(work, turns)
    figures = {
        f"{name}_updates_per_turn": work["masp"].updates,
        f"{name}_macros_seconds": float(min(seconds["macros"])),
    }
    for slow, fast in ratios:
        figures.update(ratio(f"{name}_{slow}_over_{fast}", seconds[slow], seconds[fast]))
    return figures


def throughput(quick: bool = False) -> dict[str, Any]:
    """Measure `rainbow` on every installed environment; `quick` only shows that it works."""
    turns = 3 if quick else 7
    figures: dict[str, Any] = {"turns": turns}
    for names in THROUGHPUT_PROCESSES:
        installed = tuple(name for name in names if family_of(THROUGHPUT_CASES[name][0]).installed)
        if installed:
            figures.update(in_own_process(_throughput, installed, turns, quick))
    return figures


def _throughput(names: tuple[str, ...], turns: int, quick: bool) -> dict[str, Any]:
    """Some cases, in turns."""
    work = {name: _training(THROUGHPUT_CASES[name], "rainbow", quick) for name in names}
    seconds = in_turns(work, turns)
    figures: dict[str, Any] = {}
    for name, training in work.items():
        figures[f"{name}_steps_per_second"] = float(np.median(training.steps / seconds[name]))
        figures[f"{name}_updates_per_second"] = float(np.median(training.updates / seconds[name]))
    if "minigrid_envpool" in work:
        figures.update(ratio("minigrid_python_over_envpool", seconds["minigrid"], seconds["minigrid_envpool"]))
    return figures


def _training(case: Case, variant: str, quick: bool) -> Training:
    env, changes, ticks = case
    config = replace(from_preset("auto", env), variant=variant, **changes)
    return Training(config, ticks // 10 + 1 if quick else ticks)
