"""What a user gets who changes nothing: `masp` beside `macros` and `rainbow` at the presets, nothing swept."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from masp.experiments.definitions.minigrid import FAST, MASP
from masp.experiments.definitions.planted import TASKS as COPIES
from masp.experiments.definitions.structure import TASKS as STRUCTURE
from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.trial import MacroSet, Trial

CONTROLS = {"rainbow": "rainbow", "macros": "macros as it comes", "masp": "masp as it comes"}
"""Columns, and what is trained."""
TASKS = {**COPIES, **STRUCTURE}
FRAMES = 120_000
"""What the preset trains for."""
LONGER = {"bandit, noisy rewards": 240_000}
"""Where that is too little for anyone to tell the groups (docs/figures/noisy_bandit.py)."""
MINIGRID = {"Door Key": "DoorKey-8x8", "Four Rooms": "FourRooms"}
"""Those of the paper's tasks that are learned at all."""


def cells(scale: Scale) -> list[Cell]:
    """Smoke shows one task; laptop all planted ones and two of MiniGrid; paper the same with more seeds."""
    if scale == "smoke":
        overrides = options(eval_every_frames=2_000, log_every_frames=2_000, eval_episodes=64)
        env, env_options = STRUCTURE["grid, 124 macros"]
        return as_it_comes(
            ("grid, 124 macros",),
            Trial(env, 8_000, (0, 1), "rainbow", "planted", env_options, together=True, overrides=overrides),
        )
    seeds = tuple(range(10 if scale == "laptop" else 30))
    found = []
    for task, (env, env_options) in TASKS.items():
        frames = LONGER.get(task, FRAMES)
        found += as_it_comes((task,), Trial(env, frames, seeds, "rainbow", "planted", env_options, together=True))
    for task, env in MINIGRID.items():
        overrides = options(checkpoint_every_frames=100_000)
        trial = Trial(env, 500_000, seeds[:10], "rainbow", "minigrid", FAST, overrides=overrides)
        row = as_it_comes((task,), trial)
        # Those without a penalty are the same trials as in `minigrid`, whatever the preset says of meta-steps.
        found += [_without_penalty(cell) if cell.column != "masp" else cell for cell in row]
    return found


def _without_penalty(cell: Cell) -> Cell:
    return dataclasses.replace(cell, trial=cell.trial.with_overrides(**MASP))


def as_it_comes(row: Sequence[str], rainbow: Trial, macros: MacroSet | None = None) -> list[Cell]:
    """One row; `rainbow` says where and for how long."""
    found = []
    for column, control in CONTROLS.items():
        found.append(Cell(tuple(row), column, dataclasses.replace(rainbow, control=control, macros=macros)))
    return found


EXPERIMENT = Experiment(
    name="defaults",
    title="At the presets, nothing swept",
    measure="success",
    judged="run",
    row_names=("task",),
    cells=cells,
    notes={
        "smoke": "far too short to compare anything",
        "laptop": "ten seeds; planted tasks 120,000 frames (the bandit with noisy rewards twice that), "
        "MiniGrid 500,000 and eight macros",
        "paper": "the same with 30 and 10 seeds",
    },
)
