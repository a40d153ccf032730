"""Steps and updates per second of whole training runs, environment included, at the presets.

Absolute figures belong to the machine and the moment; ratios between the cases are of one run. How this compares with
other libraries is measured by `benchmarks/peers.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from masp.bench.turns import Training, in_own_process, in_turns, ratio
from masp.config import replace
from masp.environments.registry import family_of
from masp.presets import from_preset

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    # name: environment, what differs from its preset, iterations per turn
    "minigrid": ("DoorKey-5x5", {"env_options": ("backend=minigrid",)}, 100),
    "minigrid_envpool": ("DoorKey-5x5", {"env_options": ("backend=envpool",)}, 100),
    "minatar": ("minatar-breakout", {}, 200),
    "atari": ("Breakout", {"replay_steps": 20_000, "min_replay_steps": 1_000}, 10),
}


TOGETHER = (("minigrid", "minigrid_envpool", "minatar"), ("atari",))
"""Cases that share a process: networks of a size."""


def run(quick: bool = False) -> dict[str, Any]:
    """Measure `rainbow` on what is installed; `quick` to see that it works."""
    turns = 3 if quick else 7
    figures: dict[str, Any] = {"turns": turns}
    for names in TOGETHER:
        installed = tuple(name for name in names if family_of(CASES[name][0]).installed)
        if installed:
            figures.update(in_own_process(_measure, installed, turns, quick))
    return figures


def _measure(names: tuple[str, ...], turns: int, quick: bool) -> dict[str, Any]:
    """Some cases, in turns."""
    work: dict[str, Training] = {}
    for name in names:
        env, changes, iterations = CASES[name]
        config = replace(from_preset("auto", env), variant="rainbow", **changes)
        work[name] = Training(config, iterations // 10 + 1 if quick else iterations)
    seconds = in_turns(work, turns)
    figures: dict[str, Any] = {}
    for name, training in work.items():
        figures[f"{name}_steps_per_second"] = float(np.median(training.steps / seconds[name]))
        figures[f"{name}_updates_per_second"] = float(np.median(training.updates / seconds[name]))
    if "minigrid_envpool" in work:
        figures.update(ratio("minigrid_python_over_envpool", seconds["minigrid"], seconds["minigrid_envpool"]))
    return figures
