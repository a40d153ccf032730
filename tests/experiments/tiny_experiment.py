"""An experiment of a few seconds with all kinds of trials; also a program that runs it.

python tiny_experiment.py STORE [--rich] [--jobs N] [--ray ADDRESS]
"""

from __future__ import annotations

import dataclasses
import json
import sys

from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.plan import plan
from masp.experiments.runner import Where, reproduce
from masp.experiments.store import Store
from masp.experiments.trial import MacroSet, Play, Trial

OVERRIDES = options(
    num_envs=2,
    log_every_frames=100,
    eval_every_frames=100,
    eval_episodes=8,
    hidden=4,
    num_atoms=1,
    noisy=False,
    dueling=False,
    batch_size=4,
    replay_steps=300,
    min_replay_steps=40,
    steps_per_update=8,
    target_period_steps=40,
    epsilon_decay_steps=200,
    embedding=0,
    learning_rate=1e-2,
    meta_learning_rate=1e-2,
)
BASE = Trial(
    env="planted-bandit",
    frames=400,
    seeds=(0, 1),
    preset="planted",
    env_options=("contexts=2", "groups=3", "copies=2"),
    overrides=OVERRIDES,
    together=True,
)
AGENT = dataclasses.replace(BASE, control="rainbow", seeds=(1000,))
MINED = MacroSet(Play(AGENT, steps=200, epsilon=0.5), k=2, min_length=1, max_length=1, literal=True)


PLAIN = dataclasses.replace(BASE, control="macros", seeds=(0, 1), together=False, frames=2_000)
"""Long enough to be killed between two checkpoints, which come after every chunk (`conftest.start`)."""


def cells(scale: Scale) -> list[Cell]:
    """Two units of the same program, because compilation takes most of the time."""
    del scale
    return [Cell(("bandit",), "macros", PLAIN)]


def rich_cells(scale: Scale) -> list[Cell]:
    """All kinds of trials, and one that fails together with the one that needs it."""
    del scale
    transferred = dataclasses.replace(BASE, control="transfer", source=BASE)
    noisy = dataclasses.replace(BASE, control="macros", macros=dataclasses.replace(MINED, noise=0.5))
    broken = dataclasses.replace(BASE, env_options=("nonsense=1",))
    return [
        Cell(("broken",), "masp", broken),
        Cell(("broken",), "transfer", dataclasses.replace(transferred, source=broken)),
        Cell(("bandit",), "masp", BASE),
        Cell(("bandit",), "transfer", transferred),
        Cell(("bandit",), "consensus", dataclasses.replace(transferred, control="consensus", seeds=(1,))),
        Cell(("bandit",), "truth", dataclasses.replace(BASE, control="truth", together=False, seeds=(0,))),
        Cell(("bandit",), "noise", noisy),
    ]


TINY = Experiment("tiny", "a tiny experiment", "success", ("task",), cells)
RICH = dataclasses.replace(TINY, cells=rich_cells)


if __name__ == "__main__":
    jobs = int(sys.argv[sys.argv.index("--jobs") + 1]) if "--jobs" in sys.argv else 1
    where = Where(jobs=jobs, ray=sys.argv[sys.argv.index("--ray") + 1] if "--ray" in sys.argv else "")
    planned = plan(RICH if "--rich" in sys.argv else TINY, "smoke")
    failed = reproduce(planned, Store(sys.argv[1]), where, "tiny")
    print(json.dumps(failed))
    sys.exit(1 if failed else 0)
