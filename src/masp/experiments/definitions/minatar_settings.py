"""MinAtar at each scale: the affordable twin of Atari.

Laptop and smoke learn scalar values without an embedding: with 1024 macros, 51 atoms would make 6.7 million weights
of the last layer, and an embedding of the similarity 17 million. All variants are treated alike.
"""

from __future__ import annotations

from masp.environments.registry import MINATAR_IDS
from masp.experiments.definitions.games import Setting
from masp.experiments.experiment import Scale, options
from masp.presets import SWEEPS

TITLES = {name.removeprefix("minatar-").replace("_", " ").title(): name for name in MINATAR_IDS}
"""`Space Invaders` to `minatar-space_invaders`."""

QUICK = {
    "num_atoms": 1,
    "embedding": 0,
    "num_envs": 64,
    "steps_per_update": 16,
    "batch_size": 64,
    "learning_rate": 5e-4,
    "hidden": 128,
    "meta_period_updates": 8,
}
"""A quarter of Rainbow's updates with twice the batch; three seeds of 150,000 frames take minutes of one core. So few
updates need more meta-steps than the preset has."""


WEIGHT = 0.03
"""Of the penalty, with macros as in the paper; the preset's is for macros that are for exploring."""


def setting(scale: Scale, games: tuple[str, ...] = tuple(TITLES), weight: float | None = WEIGHT) -> Setting:
    """The games by title; smoke plays the first of them, or two where two are needed. `weight` None: the preset's."""
    named = {game: TITLES[game] for game in games}
    chosen = {} if weight is None else {"penalty_weight": weight}
    if scale == "smoke":
        overrides = options(
            **QUICK,
            **chosen,
            epsilon_decay_steps=5_000,
            log_every_frames=5_000,
            eval_every_frames=5_000,
            eval_episodes=16,
            replay_steps=20_000,
        )
        return Setting(named, 10_000, (0, 1), "minatar", overrides, True, play_steps=20_000)
    if scale == "laptop":
        overrides = options(
            **QUICK,
            **chosen,
            epsilon_decay_steps=50_000,
            log_every_frames=15_000,
            eval_every_frames=30_000,
            checkpoint_every_frames=75_000,
        )
        return Setting(named, 150_000, (0, 1, 2), "minatar", overrides, True)
    swept = SWEEPS["paper-atari"]
    return Setting(
        named,
        10_000_000,
        tuple(range(10)),
        "minatar",
        together=True,
        weights=swept["penalty_weight"],
        rates=swept["meta_learning_rate"],
    )


NOTES: dict[Scale, str] = {
    "smoke": "far too short to compare anything",
    "laptop": "macros mined from the play of a Rainbow agent trained with another seed; scalar values, no embedding",
    "paper": "the paper has no MinAtar; its sweeps and numbers of macros, the settings of Revisiting Rainbow",
}
