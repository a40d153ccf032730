"""`structure` with real macros of MiniGrid: few and many of them, every control at its own best weight."""

from __future__ import annotations

from masp.experiments.definitions.games import Setting, number_of_macros
from masp.experiments.definitions.minigrid import FAST
from masp.experiments.experiment import Cell, Experiment, Scale, options

TASK = "DoorKey-5x5"
KS = (8, 32, 128)
WEIGHTS = (0.003, 0.03, 0.3)
FRAMES = 60_000
OVERRIDES = options(
    # As in the preset: exploring for half the run, and about as many meta-steps as its 500,000 frames have.
    epsilon_decay_steps=FRAMES // 2,
    meta_period_updates=1,
    eval_every_frames=6_000,
    eval_episodes=32,
    checkpoint_every_frames=0,
)


def cells(scale: Scale) -> list[Cell]:
    """Smoke has eight macros and no sweep; laptop 8 to 128 macros with ten seeds; paper the same with thirty."""
    if scale == "smoke":
        overrides = options(
            eval_every_frames=5_000, log_every_frames=2_500, epsilon_decay_steps=5_000, eval_episodes=32
        )
        smoke = Setting(
            {TASK: TASK}, 10_000, (0,), "minigrid", overrides, env_options=FAST, play_frames=10_000, play_steps=5_000
        )
        return number_of_macros(smoke, KS[:1])
    seeds = tuple(range(10 if scale == "laptop" else 30))
    setting = Setting(
        {TASK: TASK},
        FRAMES,
        seeds,
        "minigrid",
        OVERRIDES,
        env_options=FAST,
        # Until it has learned the task.
        play_frames=200_000,
        weights=WEIGHTS,
        judged="run",
    )
    return number_of_macros(setting, KS)


EXPERIMENT = Experiment(
    name="structure-minigrid",
    title="MiniGrid, 8 to 128 mined macros, each control at its best weight",
    measure="success",
    judged="run",
    row_names=("task", "number of macros"),
    cells=cells,
    notes={
        "smoke": "far too short to compare anything",
        "laptop": "60,000 frames; macros mined from the play of a Rainbow agent trained with another seed for 200,000; "
        "each control at the best of three weights on other seeds",
        "paper": "the same with 30 seeds",
    },
)
