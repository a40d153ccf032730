"""All variants at the presets, nothing swept: what a user gets who changes no setting."""

from __future__ import annotations

import dataclasses

from masp.experiments.definitions import minatar
from masp.experiments.definitions.games import K, Setting
from masp.experiments.definitions.minigrid import FAST
from masp.experiments.definitions.planted import PLANTED_TASKS, STRUCTURE_TASKS
from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.trial import MacroSet, Trial

COLUMNS = {"rainbow": "rainbow", "macros": "macros as it comes", "masp": "masp as it comes"}
"""Column to control."""
OUTCOMES = {"outcomes": "outcomes as it comes"}
"""Needs single decisions or intra-option learning, which the preset `minigrid` does not have."""
TASKS = {**PLANTED_TASKS, **STRUCTURE_TASKS}
FRAMES = 120_000
"""Frames of the preset."""
LONGER = {"bandit, noisy rewards": 240_000}
"""Tasks where that is too short for anyone to tell the groups."""
MINIGRID = {"Door Key": "DoorKey-8x8", "Four Rooms": "FourRooms"}
"""Those of the paper's tasks that are learned at all."""

FIRST_SEED = 20
"""First seed of `defaults-minatar`; its preset was tuned on other seeds (docs/log/2026-11-16-defaults-short.md)."""
SEEDS_OF_MANY = 30
"""Seeds with many macros: two sets of ten contradicted each other, each beyond its interval."""
FIXED = ("uniform", "random", "overlap")
"""Fixed similarities beside the learned one."""


def _defaults(scale: Scale) -> list[Cell]:
    """Smoke has one task; laptop all planted tasks and two of MiniGrid; paper the same with more seeds."""
    if scale == "smoke":
        overrides = options(eval_every_frames=2_000, log_every_frames=2_000, eval_episodes=64)
        task = "grid, 124 macros"
        env, env_options = TASKS[task]
        rainbow = Trial(env, 8_000, (0, 1), "rainbow", "planted", env_options, together=True, overrides=overrides)
        return _row((task,), rainbow, {**COLUMNS, **OUTCOMES})
    seeds = tuple(range(10 if scale == "laptop" else 30))
    cells = []
    for task, (env, env_options) in TASKS.items():
        frames = LONGER.get(task, FRAMES)
        rainbow = Trial(env, frames, seeds, "rainbow", "planted", env_options, together=True)
        cells += _row((task,), rainbow, {**COLUMNS, **OUTCOMES})
    for task, env in MINIGRID.items():
        overrides = ()
        rainbow = Trial(env, 500_000, seeds[:10], "rainbow", "minigrid", FAST, overrides=overrides)
        cells += _row((task,), rainbow, COLUMNS)
    return cells


def _row(row: tuple[str, ...], rainbow: Trial, columns: dict[str, str], macros: MacroSet | None = None) -> list[Cell]:
    """One row; `rainbow` gives environment, frames and seeds."""
    return [
        Cell(row, column, dataclasses.replace(rainbow, control=control, macros=macros))
        for column, control in columns.items()
    ]


def _defaults_minatar(scale: Scale) -> list[Cell]:
    """Smoke is one game; laptop two with ten seeds, one of them with many macros too; paper all five, thirty seeds."""
    if scale == "smoke":
        return _minatar_rows(minatar.short(scale, minatar.ONE, None), K, FIXED)
    laptop = minatar.short("laptop", minatar.PAIR if scale == "laptop" else minatar.ALL, None)
    few = dataclasses.replace(
        laptop,
        frames=minatar.STRUCTURE_FRAMES,
        play_frames=laptop.frames,
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + (10 if scale == "laptop" else 30))),
    )
    many = dataclasses.replace(
        few,
        games={"Breakout": laptop.games["Breakout"]},
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + SEEDS_OF_MANY)),
    )
    # Fixed similarities with many macros are in `structure-minatar`, each at its best weight.
    return _minatar_rows(few, K, FIXED) + _minatar_rows(many, minatar.MANY, ())


def _minatar_rows(setting: Setting, k: int, fixed: tuple[str, ...]) -> list[Cell]:
    cells = []
    for game in setting.games:
        row, macros = (game, str(k)), setting.macros(game, k)
        rainbow = setting.trial(game, "rainbow")
        cells += _row(row, rainbow, COLUMNS, macros)
        # Intra-option learning doubles the rows of a batch; this is as many rows without any macros.
        double = rainbow.with_overrides(batch_size=2 * dict(setting.overrides)["batch_size"])
        cells.append(Cell(row, "rainbow twice the batch", double))
        cells += _row(row, rainbow, {control: f"{control} as it comes" for control in fixed}, macros)
    return cells


EXPERIMENTS = {
    "defaults": Experiment(
        name="defaults",
        title="At the presets, nothing swept",
        measure="success",
        judged="run",
        row_names=("task",),
        cells=_defaults,
        notes={
            "smoke": "far too short to compare anything",
            "laptop": "ten seeds; planted tasks 120,000 frames (the bandit with noisy rewards twice that), "
            "MiniGrid 500,000 and eight macros",
            "paper": "the same with 30 and 10 seeds",
        },
    ),
    "defaults-minatar": Experiment(
        name="defaults-minatar",
        title="MinAtar at the presets, nothing swept",
        measure="return",
        judged="run",
        row_names=("game", "number of macros"),
        cells=_defaults_minatar,
        notes={
            "smoke": minatar.NOTES["smoke"],
            "laptop": "100,000 frames; macros mined from the play of another Rainbow agent; scalar values, no "
            "embedding; ten seeds, with 1024 macros thirty",
            "paper": "five games, 30 seeds",
        },
    ),
}
