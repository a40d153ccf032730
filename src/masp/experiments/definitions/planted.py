"""Tasks with known groups of actions. `planted`: is the truth found? `structure`: does learning it beat every fixed
similarity on tasks where it should matter which actions are similar?

In a sweep each control chooses its own weight, on seeds that are not reported: best against best.
"""

from __future__ import annotations

import dataclasses

from masp.experiments.controls import COMPARED, TRANSFERRED_SIMILARITY, UNPENALISED
from masp.experiments.experiment import SCALES, Cell, Experiment, Scale, options, with_intra_option
from masp.experiments.trial import Sweep, Trial

Task = tuple[str, tuple[str, ...]]
"""Environment and options."""

PLANTED_TASKS: dict[str, Task] = {
    # `macros` and `masp` have all copies as actions, `rainbow` one of each group
    "bandit, 64 actions": ("planted-bandit", ()),
    "grid, 32 actions": ("planted-grid", ("copies=8",)),
    "grid, 128 actions": ("planted-grid", ("copies=32",)),
}
STRUCTURE_TASKS: dict[str, Task] = {
    "grid, 128 actions": ("planted-grid", ("copies=32",)),
    "grid, unequal groups": ("planted-grid", ("copies=32", "uneven=true")),
    "grid, cliff, noisy rewards": ("planted-grid", ("copies=32", "cliff=true", "pay=0.7")),
    "grid, 124 macros": ("planted-grid", ("sequences=124",)),
    "grid, 124 macros, cliff": ("planted-grid", ("sequences=124", "cliff=true")),
    "grid, 128 primitives": ("planted-grid", ("copies=32", "opaque=true")),
    "grid, 128 primitives, cliff": ("planted-grid", ("copies=32", "opaque=true", "cliff=true")),
    "bandit, noisy rewards": ("planted-bandit", ("pay_good=0.6", "pay_bad=0.4")),
    "bandit, unequal groups": ("planted-bandit", ("uneven=true",)),
}
CONTROLS = (*COMPARED, "prior", "truth")

# Penalty weights are for a mean over actions: those of the sum times the number of actions, rounded to 0.3, 1, 3, 10
# and 30. The paper has none of these tasks, so the scale paper uses the same weights.
WEIGHTS = (0.3, 1.0, 3.0, 10.0)
"""`planted` (in the sum 0.01 to 0.1 with 32 actions, 0.002 to 0.08 with 128)."""
STRUCTURE_WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""`structure` (in the sum 0.003 to 0.3 with 128 actions)."""
UNSWEPT_WEIGHT = 0.3
"""Where none is chosen (0.01 in the sum with 32 actions)."""
LITERAL_WEIGHT = 0.01
"""The literal penalty is a sum over actions, so its weight is not rescaled."""
LITERAL_TASK = "bandit, 64 actions"
"""Where the paper's literal penalty and plain SGD are shown for contrast."""

WITH_MACROS = ("grid, 124 macros", "grid, 124 macros, cliff")
INTRA_OPTION_COLUMNS = ("macros", "uniform", "masp")
"""Columns that are also shown with intra-option learning, on the tasks with macros."""
EXCHANGES = (("grid, 128 primitives", "grid, 128 primitives, cliff"), WITH_MACROS)
"""Pairs of tasks with the same actions: each is also trained with the similarity learned on the other."""
SMOKE = options(eval_every_frames=2_000, log_every_frames=2_000, eval_episodes=64)


def _planted(scale: Scale) -> list[Cell]:
    """Smoke has one task; laptop and paper have all, with a weight chosen per control on other seeds."""
    if scale == "smoke":
        return _row("grid, 32 actions", PLANTED_TASKS["grid, 32 actions"], 12_000, (0, 1), SMOKE)
    seeds = tuple(range(5 if scale == "laptop" else 20))
    sweep = Sweep(WEIGHTS, seeds=(100, 101, 102))
    cells = [cell for name, task in PLANTED_TASKS.items() for cell in _row(name, task, 60_000, seeds, sweep=sweep)]
    env, env_options = PLANTED_TASKS[LITERAL_TASK]
    masp = Trial(env, 60_000, seeds, env_options=env_options, together=True)
    literal = masp.with_overrides(penalty_form="literal", penalty_weight=LITERAL_WEIGHT)
    sgd = masp.with_overrides(meta_optimiser="sgd", penalty_weight=UNSWEPT_WEIGHT)
    return [*cells, Cell((LITERAL_TASK,), "masp literal", literal), Cell((LITERAL_TASK,), "masp SGD", sgd)]


def _structure(scale: Scale) -> list[Cell]:
    """Smoke has the task with real macros; laptop all tasks with ten seeds; paper the same with thirty."""
    if scale == "smoke":
        return _row("grid, 124 macros", STRUCTURE_TASKS["grid, 124 macros"], 8_000, (0, 1), SMOKE)
    seeds = tuple(range(10 if scale == "laptop" else 30))
    sweep = Sweep(STRUCTURE_WEIGHTS, seeds=(100, 101, 102), judged="run")
    cells = [cell for name, task in STRUCTURE_TASKS.items() for cell in _row(name, task, 60_000, seeds, sweep=sweep)]
    masp = {cell.row[0]: cell.trial for cell in cells if cell.column == "masp"}
    cells += [Cell((task,), "outcomes", _as_control(trial, "outcomes")) for task, trial in masp.items()]
    cells += [
        with_intra_option(cell) for cell in cells if cell.row[0] in WITH_MACROS and cell.column in INTRA_OPTION_COLUMNS
    ]
    return cells + [cell for pair in EXCHANGES for cell in _exchanged(*pair, masp)]


def _row(
    name: str,
    task: Task,
    frames: int,
    seeds: tuple[int, ...],
    overrides: tuple = (),
    sweep: Sweep | None = None,
) -> list[Cell]:
    """All controls on one task; those with a penalty choose their weight if there is a sweep."""
    env, env_options = task
    rainbow = Trial(env, frames, seeds, "rainbow", "planted", env_options, overrides=overrides, together=True)
    rainbow = rainbow.with_overrides(penalty_weight=UNSWEPT_WEIGHT)
    swept = dataclasses.replace(rainbow, sweep=sweep)
    return [
        Cell((name,), control, _as_control(rainbow if control in UNPENALISED else swept, control))
        for control in CONTROLS
    ]


def _as_control(trial: Trial, control: str) -> Trial:
    return dataclasses.replace(trial, control=control)


def _exchanged(one: str, other: str, masp: dict[str, Trial]) -> list[Cell]:
    """Both tasks with the similarity that was learned on the other, as it is and denoised."""
    cells = []
    for task, source in ((one, other), (other, one)):
        for control in TRANSFERRED_SIMILARITY:
            trial = dataclasses.replace(masp[task], control=control, source=masp[source])
            cells.append(Cell((task,), control, trial))
    return cells


EXPERIMENTS = {
    "planted": Experiment(
        name="planted",
        title="Tasks with known groups of equivalent actions",
        measure="success",
        row_names=("task",),
        cells=_planted,
        notes=dict.fromkeys(
            SCALES,
            "copies play the same primitive, so the overlap of two actions is 1 within a group and 0 outside: overlap "
            "is truth",
        ),
    ),
    "structure": Experiment(
        name="structure",
        title="Tasks on which telling actions apart should matter",
        measure="success",
        judged="run",
        row_names=("task",),
        cells=_structure,
        notes={
            "smoke": "far too short to compare anything",
            "laptop": "macros of the grid are similar in `truth` if they lead to the same place; where all actions are "
            "primitives, overlap has no information; each control at the best of five weights on other seeds",
            "paper": "the same with 30 seeds",
        },
    ),
}
