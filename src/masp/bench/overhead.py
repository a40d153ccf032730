"""What meta-learning the similarity costs: wall time of `masp` against `macros`, same environment, same frames.

Both are compiled first, then run in turns; each ratio is that of one turn.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from masp.allocator import keep_freed_memory
from masp.config import replace
from masp.presets import from_preset
from masp.training.train import make_loop


def run(quick: bool = False) -> dict[str, Any]:
    """Measure on `planted-grid` with 32 actions; `quick` to see that it works."""
    keep_freed_memory()
    turns, iterations = (3, 20) if quick else (9, 400)
    loops: dict[str, list[Any]] = {}
    for variant in ("macros", "masp"):
        config = replace(from_preset("auto", "planted-grid"), variant=variant, env_options=("copies=8",)).resolved()
        loop, _ = make_loop(config)
        warm_up = config.agent.min_replay_steps // (config.num_envs * config.ticks_per_iteration) + 1
        state = loop.run(loop.run(loop.init([0]), warm_up, False), 1, True)
        loops[variant] = [loop, state]
    seconds: dict[str, list[float]] = {"macros": [], "masp": []}
    for _ in range(turns):
        for variant, pair in loops.items():
            started = time.perf_counter()
            pair[1] = jax.block_until_ready(pair[0].run(pair[1], iterations, True))
            seconds[variant].append(time.perf_counter() - started)
    ratios = np.array(seconds["masp"]) / np.array(seconds["macros"])
    return {
        "env": "planted-grid, 32 actions",
        "turns": turns,
        "iterations": iterations,
        "macros_seconds": float(np.median(seconds["macros"])),
        "masp_seconds": float(np.median(seconds["masp"])),
        "masp_over_macros_ratio": float(np.median(ratios)),
        "masp_over_macros_ratio_interval": [float(x) for x in np.percentile(ratios, [10, 90])],
    }
