"""What meta-learning the similarity costs: wall time of `masp` against `macros`, same environment, same frames.

End to end: environment, acting, replay and learning. Both are compiled first, then run in turns; each ratio is that
of one turn.
"""

from __future__ import annotations

from typing import Any

from masp.bench.turns import Training, in_own_process, in_turns, ratio
from masp.config import replace
from masp.environments.registry import family_of
from masp.presets import from_preset

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    # name: environment, what differs from its preset, iterations per turn
    "planted": ("planted-grid", {"env_options": ("copies=8",)}, 400),
    "minigrid": ("DoorKey-5x5", {}, 60),
    "atari": ("Breakout", {"replay_steps": 20_000, "min_replay_steps": 1_000}, 8),
}


def run(quick: bool = False) -> dict[str, Any]:
    """Measure every case whose environment is installed; `quick` to see that it works."""
    turns = 3 if quick else 9
    figures: dict[str, Any] = {"turns": turns}
    for name, (env, _, _) in CASES.items():
        if not family_of(env).installed:
            figures[name] = f"not measured: {family_of(env).install_line}"
            continue
        figures.update(in_own_process(_measure, name, turns, quick))
    return figures


def _measure(name: str, turns: int, quick: bool) -> dict[str, Any]:
    """One case."""
    env, changes, iterations = CASES[name]
    config = replace(from_preset("auto", env), **changes)
    work = {
        variant: Training(replace(config, variant=variant), iterations // 10 + 1 if quick else iterations)
        for variant in ("macros", "masp")
    }
    seconds = in_turns(work, turns)
    return {
        f"{name}_updates_per_turn": work["masp"].updates,
        f"{name}_macros_seconds": float(min(seconds["macros"])),
        **ratio(f"{name}_masp_over_macros", seconds["masp"], seconds["macros"]),
    }
