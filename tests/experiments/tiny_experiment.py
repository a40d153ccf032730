"""An experiment of a few seconds, with everything that a real one has; also a program that runs it.

  python tiny_experiment.py STORE [--slow] [--jobs N] [--ray]
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.plan import plan
from masp.experiments.reproduce import Where, reproduce
from masp.experiments.store import Store
from masp.experiments.trial import MacroSet, Play, Sweep, Trial

OVERRIDES = options(
    num_envs=2,
    log_every_frames=100,
    eval_every_frames=100,
    eval_episodes=8,
    checkpoint_every_frames=100,
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


def cells(scale: Scale) -> list[Cell]:
    """Learned, learned at a chosen weight, transferred one seed at a time, and mined macros with noise."""
    del scale
    learned = BASE
    transferred = dataclasses.replace(BASE, control="transfer", source=learned, together=False)
    return [
        Cell(("bandit",), "masp", learned),
        Cell(("bandit",), "transfer", transferred),
    ]


def rich_cells(scale: Scale) -> list[Cell]:
    """All kinds of trials."""
    swept = dataclasses.replace(BASE, sweep=Sweep((0.01, 0.1), (0.001, 0.01), seeds=(100,)), seeds=(0,))
    noisy = dataclasses.replace(BASE, macros=dataclasses.replace(MINED, noise=0.5), seeds=(0,))
    return [
        *cells(scale),
        Cell(("bandit",), "truth", dataclasses.replace(BASE, control="truth")),
        Cell(("bandit",), "swept", swept),
        Cell(("bandit",), "noise", noisy),
    ]


TINY = Experiment("tiny", "a tiny experiment", "success", ("task",), cells)
RICH = dataclasses.replace(TINY, cells=rich_cells)


def shared_programs(store: Path, programs: Path) -> Store:
    """A store whose compiled programs are shared with other stores, because compiling is what takes time here."""
    (store / "work").mkdir(parents=True, exist_ok=True)
    programs.mkdir(parents=True, exist_ok=True)
    link = store / "work" / "compiled"
    if not link.exists():
        link.symlink_to(programs)
    return Store(store)


def slow_down(seconds: float) -> None:
    """Let every checkpoint take so long, so that a test can kill between two of them."""
    from masp.training import checkpoint

    save = checkpoint.save

    def slow(*args, **kwargs):
        save(*args, **kwargs)
        time.sleep(seconds)

    checkpoint.save = slow


if __name__ == "__main__":
    if "--slow" in sys.argv:
        slow_down(0.3)
    jobs = int(sys.argv[sys.argv.index("--jobs") + 1]) if "--jobs" in sys.argv else 1
    where = Where(jobs=jobs, ray="auto" if "--ray" in sys.argv else "")
    sys.exit(1 if reproduce(plan(TINY, "smoke"), Store(sys.argv[1]), where, "tiny") else 0)
