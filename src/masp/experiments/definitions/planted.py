"""Tasks with known groups: is the truth found, and does the learned similarity do better than its controls?"""

from __future__ import annotations

from masp.experiments.definitions.controls import COMPARED
from masp.experiments.experiment import SCALES, Cell, Experiment, Scale, options
from masp.experiments.trial import Sweep, Trial

TASKS: dict[str, tuple[str, tuple[str, ...]]] = {
    # name: environment and options; all copies are actions of `macros` and `masp`, one of each group of `rainbow`
    "bandit, 64 actions": ("planted-bandit", ()),
    "grid, 32 actions": ("planted-grid", ("copies=8",)),
    "grid, 128 actions": ("planted-grid", ("copies=32",)),
}
CONTROLS = (*COMPARED, "prior", "truth")
WEIGHTS = (0.01, 0.03, 0.1)
"""Penalty weights that each control may choose from."""
UNSWEPT_WEIGHT = 0.01
"""Where none is chosen."""
NOTE = (
    "copies play the same primitive, so the overlap of two actions is 1 within a group and 0 outside: overlap is truth"
)
LITERAL_TASK = "bandit, 64 actions"
"""Where the paper's literal penalty and plain SGD are shown for contrast."""


def cells(scale: Scale) -> list[Cell]:
    """Smoke shows one task quickly; laptop has all, with a weight chosen per control on other seeds."""
    if scale == "smoke":
        overrides = options(eval_every_frames=2_000, log_every_frames=2_000, eval_episodes=64)
        return compared("grid, 32 actions", TASKS["grid, 32 actions"], 12_000, (0, 1), overrides)
    seeds = tuple(range(5 if scale == "laptop" else 20))
    sweep = Sweep(WEIGHTS, seeds=(100, 101, 102))
    found = [cell for task, where in TASKS.items() for cell in compared(task, where, 60_000, seeds, sweep=sweep)]
    env, env_options = TASKS[LITERAL_TASK]
    base = Trial(env, 60_000, seeds, env_options=env_options, together=True).with_overrides(
        penalty_weight=UNSWEPT_WEIGHT
    )
    found.append(Cell((LITERAL_TASK,), "masp literal", base.with_overrides(penalty_form="literal")))
    found.append(Cell((LITERAL_TASK,), "masp SGD", base.with_overrides(meta_optimiser="sgd")))
    return found


def compared(
    task: str,
    where: tuple[str, tuple[str, ...]],
    frames: int,
    seeds: tuple[int, ...],
    overrides: tuple = (),
    sweep: Sweep | None = None,
) -> list[Cell]:
    """One row: all controls on the task `where` (environment and options), each with a weight of its own if swept."""
    env, env_options = where
    found = []
    for control in CONTROLS:
        swept = None if control in ("rainbow", "macros") else sweep
        trial = Trial(env, frames, seeds, control, "planted", env_options, None, None, overrides, swept, True)
        found.append(Cell((task,), control, trial.with_overrides(penalty_weight=UNSWEPT_WEIGHT)))
    return found


EXPERIMENT = Experiment(
    name="planted",
    title="Tasks with known groups of equivalent actions",
    measure="success",
    row_names=("task",),
    cells=cells,
    notes={scale: NOTE for scale in SCALES},
)
