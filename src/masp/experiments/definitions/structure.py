"""Tasks on which it should matter which actions are alike: does learning it beat every fixed similarity?

Each control chooses its own weight, on seeds that are not reported: best against best.
"""

from __future__ import annotations

import dataclasses

from masp.experiments.definitions.controls import TAKEN_OVER
from masp.experiments.definitions.planted import compared
from masp.experiments.experiment import Cell, Experiment, Scale, credited, options
from masp.experiments.trial import Sweep, Trial

TASKS: dict[str, tuple[str, tuple[str, ...]]] = {
    # name: environment and options
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
WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3)
WITH_MACROS = ("grid, 124 macros", "grid, 124 macros, cliff")
CREDITED = ("macros", "uniform", "masp")
"""Controls that are also shown with credit inside macros, on the tasks that have some."""
EXCHANGING = (("grid, 128 primitives", "grid, 128 primitives, cliff"), ("grid, 124 macros", "grid, 124 macros, cliff"))
"""Tasks with the same actions, which also take over what `masp` learned on the other."""


def cells(scale: Scale) -> list[Cell]:
    """Smoke shows the real macros quickly; laptop has all tasks with ten seeds."""
    if scale == "smoke":
        overrides = options(eval_every_frames=2_000, log_every_frames=2_000, eval_episodes=64)
        return compared("grid, 124 macros", TASKS["grid, 124 macros"], 8_000, (0, 1), overrides)
    seeds = tuple(range(10 if scale == "laptop" else 30))
    sweep = Sweep(WEIGHTS, seeds=(100, 101, 102), judged="run")
    found = [cell for task, where in TASKS.items() for cell in compared(task, where, 60_000, seeds, sweep=sweep)]
    found += [_by_outcomes(cell) for cell in found if cell.column == "masp"]
    inside = [credited(cell) for cell in found if cell.row[0] in WITH_MACROS and cell.column in CREDITED]
    learned = {cell.row[0]: cell.trial for cell in found if cell.column == "masp"}
    return found + inside + [cell for pair in EXCHANGING for cell in exchanged(*pair, learned)]


def _by_outcomes(cell: Cell) -> Cell:
    """The same, but the similarity is what actions lead to, in each state."""
    return Cell(cell.row, "outcomes", dataclasses.replace(cell.trial, control="outcomes"))


def exchanged(one: str, other: str, learned: dict[str, Trial]) -> list[Cell]:
    """Both tasks with the similarity that was learned on the other, as it is and by its rows."""
    found = []
    for task, source in ((one, other), (other, one)):
        for control in TAKEN_OVER:
            trial = dataclasses.replace(learned[task], control=control, source=learned[source])
            found.append(Cell((task,), control, trial))
    return found


EXPERIMENT = Experiment(
    name="structure",
    title="Tasks on which telling actions apart should matter",
    measure="success",
    judged="run",
    row_names=("task",),
    cells=cells,
    notes={
        "smoke": "far too short to compare anything",
        "laptop": "macros of the grid are alike in `truth` if they lead to the same place; where all actions are "
        "primitives, overlap knows nothing; each control at the best of five weights on other seeds",
        "paper": "the same with 30 seeds",
    },
)
