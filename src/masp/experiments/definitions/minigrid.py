"""MiniGrid: the paper's four tasks, the same learned from demonstrations, and `structure-minigrid` with few and many
mined macros and swept weights."""

from __future__ import annotations

import dataclasses
from typing import Any

from masp.experiments.controls import COMPARED
from masp.experiments.definitions.games import Setting, number_of_macros, sweep_of
from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.trial import MacroSet, Play, Solver, Trial
from masp.presets import SWEEPS

TASKS = {
    # name in the paper: ours; the paper does not say which size of DoorKey
    "Door Key": "DoorKey-8x8",
    "Four Rooms": "FourRooms",
    "Locked Room": "LockedRoom",
    "Obstructed Maze Full": "ObstructedMaze-Full-v1",
}
FAST = ("backend=envpool",)
"""The same tasks in C++."""

# Penalty weights are for a mean over actions: those of the sum over 7 primitives and 8 macros times 15, rounded to
# 0.03, 0.3, 3. The scale paper of `minigrid` keeps the paper's sum and the values that it swept.
MASP: dict[str, Any] = {"penalty_weight": 0.3, "meta_period_updates": 4}
"""`minigrid` (0.03 in the sum); the preset uses a smaller weight and fewer meta-steps since."""
WEIGHTS = (0.03, 0.3, 3.0)
"""`structure-minigrid` (0.003, 0.03 and 0.3 in the sum)."""

STRUCTURE_TASK = "DoorKey-5x5"
KS = (8, 32, 128)
STRUCTURE_FRAMES = 60_000

DEMONSTRATED = ("Four Rooms", "Locked Room", "Obstructed Maze Full")
"""Tasks that an agent which explores at random does not learn within the paper's budget."""
DEMONSTRATION_COLUMNS = {
    "rainbow": "rainbow",
    "macros": "macros as it comes",
    "uniform": "uniform as it comes",
    "masp": "masp as it comes",
}


def _comparison(scale: Scale) -> list[Cell]:
    """Smoke has one small task; laptop all four at our preset; paper all four at the paper's, swept."""
    if scale == "smoke":
        overrides = options(
            eval_every_frames=10_000, log_every_frames=5_000, epsilon_decay_steps=10_000, eval_episodes=32, **MASP
        )
        trial = Trial("", 20_000, (0,), "rainbow", "minigrid", FAST, overrides=overrides)
        return _rows({"Door Key 5x5": "DoorKey-5x5"}, trial)
    if scale == "laptop":
        overrides = options(**MASP)
        return _rows(TASKS, Trial("", 500_000, (0, 1, 2), "rainbow", "minigrid", FAST, overrides=overrides))
    env_options = (*FAST, "max_episode_steps=2000")
    trial = Trial("", 500_000, tuple(range(5)), "rainbow", "paper-minigrid", env_options)
    return _rows(TASKS, trial, SWEEPS["paper-minigrid"])


def _rows(tasks: dict[str, str], trial: Trial, sweep: dict[str, Any] | None = None) -> list[Cell]:
    """All controls on all tasks; `trial` gives frames, seeds and settings."""
    cells = []
    for task, env in tasks.items():
        for control in COMPARED:
            swept = sweep_of(control, sweep["penalty_weight"], sweep["meta_learning_rate"]) if sweep else None
            cells.append(Cell((task,), control, dataclasses.replace(trial, env=env, control=control, sweep=swept)))
    return cells


def _structure(scale: Scale) -> list[Cell]:
    """Smoke has eight macros and no sweep; laptop 8 to 128 macros with ten seeds; paper the same with thirty."""
    if scale == "smoke":
        smoke = Setting(
            {STRUCTURE_TASK: STRUCTURE_TASK},
            10_000,
            (0,),
            "minigrid",
            options(eval_every_frames=5_000, log_every_frames=2_500, epsilon_decay_steps=5_000, eval_episodes=32),
            env_options=FAST,
            play_frames=10_000,
            play_steps=5_000,
        )
        return number_of_macros(smoke, KS[:1])
    setting = Setting(
        {STRUCTURE_TASK: STRUCTURE_TASK},
        STRUCTURE_FRAMES,
        tuple(range(10 if scale == "laptop" else 30)),
        "minigrid",
        options(
            # as in the preset: exploration during half the run, and about as many meta-steps as in 500,000 frames
            epsilon_decay_steps=STRUCTURE_FRAMES // 2,
            meta_period_updates=1,
            eval_every_frames=6_000,
            eval_episodes=32,
        ),
        env_options=FAST,
        play_frames=200_000,  # enough to learn the task
        weights=WEIGHTS,
        judged="run",
    )
    return number_of_macros(setting, KS)


def _demonstrated(scale: Scale) -> list[Cell]:
    """All variants learn from the same recordings of a solver, from which the macros are mined too; the whole view."""
    smoke = scale == "smoke"
    solver = Solver(20 if smoke else 200)
    overrides = options(
        epsilon=(0.2, 0.01),
        epsilon_decay_steps=5_000 if smoke else 50_000,
        eval_every_frames=5_000 if smoke else 50_000,
    )
    trial = Trial(
        "",
        10_000 if smoke else 500_000,
        (70,) if smoke else (70, 71, 72, 73, 74),
        "rainbow",
        "minigrid",
        (*FAST, "view=whole"),
        overrides=overrides,
    )
    macros = MacroSet(Play(solver=solver), k=8, min_length=2, max_length=4)
    tasks = {"Door Key 5x5": STRUCTURE_TASK} if smoke else {task: TASKS[task] for task in DEMONSTRATED}
    cells = []
    for task, env in tasks.items():
        alone = dataclasses.replace(trial, env=env)
        shown = dataclasses.replace(alone, demonstrations=solver)
        for column, control in DEMONSTRATION_COLUMNS.items():
            learner = shown if control == "rainbow" else dataclasses.replace(shown, control=control, macros=macros)
            cells.append(Cell((task,), column, learner))
        cells.append(Cell((task,), "rainbow alone", alone))
    return cells


EXPERIMENTS = {
    "minigrid": Experiment(
        name="minigrid",
        title="MiniGrid, eight macros of two to four steps",
        measure="success",
        row_names=("task",),
        cells=_comparison,
        paper_table="minigrid",
        notes={
            "smoke": "DoorKey-5x5, a small task that the paper does not have; far too short to compare anything",
            "laptop": "DoorKey is the size 8x8 (the paper does not say); macros are ours, the paper names one of its "
            "eight",
        },
    ),
    "minigrid-demonstrations": Experiment(
        name="minigrid-demonstrations",
        title="MiniGrid, the whole view, learned from 200 episodes of a solver and from own play",
        titles={"smoke": "MiniGrid, the whole view, learned from 20 episodes of a solver and from own play"},
        measure="success",
        row_names=("task",),
        cells=_demonstrated,
        notes={
            "smoke": "DoorKey-5x5, far too short to compare anything",
            "laptop": "8 macros mined from the same episodes; `rainbow alone` sees the same and learns from its own "
            "play only",
        },
    ),
    "structure-minigrid": Experiment(
        name="structure-minigrid",
        title="MiniGrid, 8 to 128 mined macros, each control at its best weight",
        measure="success",
        judged="run",
        row_names=("task", "number of macros"),
        cells=_structure,
        notes={
            "smoke": "far too short to compare anything",
            "laptop": "60,000 frames; macros mined from the play of a Rainbow agent trained with another seed for "
            "200,000; each control at the best of three weights on other seeds",
            "paper": "the same with 30 seeds",
        },
    ),
}
