"""Atari at each scale: one game for minutes, one for hours, all 54 as in the paper."""

from __future__ import annotations

from collections.abc import Sequence

from masp.experiments.definitions.games import Setting
from masp.experiments.definitions.human_play import human_play
from masp.experiments.experiment import Scale, options
from masp.presets import SWEEPS
from masp.report.paper import paper

IDS = {
    "Montezuma's Revenge": "MontezumaRevenge",
    "Q Bert": "Qbert",
    "Wizard of Wor": "WizardOfWor",
    "Yarr's Revenge": "YarsRevenge",
}
"""Games that the paper does not call by their id with spaces."""

FIVE = ("Breakout", "Frostbite", "Ms Pacman", "Seaquest", "Space Invaders")
"""The games of the paper's main text and ablations."""
FOUR = ("Breakout", "Montezuma's Revenge", "Private Eye", "Space Invaders")
"""The games of its transfer table."""
LAPTOP_GAME = "Breakout"

QUICK = {
    "noisy": False,
    "hidden": 256,
    "n_step": 10,
    "steps_per_update": 2,
    "epsilon_decay_steps": 10_000,
    "epsilon_end": 0.05,
    "eval_epsilon": 0.05,
    "target_period_steps": 1_000,
    "learning_rate": 2e-4,
    "meta_period_updates": 8,
}
"""For images of 42 x 42: an update takes a tenth of the time, and learning shows within 100,000 frames.

The run is short, so meta-steps are more frequent than in the preset. No action is sticky, and a game that need not
share its actions with another or with people has its own few: with all 18, sticky, a short run learned nothing
(docs/atari.md)."""


def games() -> list[str]:
    """All games of the paper, by its names."""
    return [row[0] for row in paper()["tables"]["atari"]["cells"]]


def env_of(game: str) -> str:
    """`Space Invaders` to `SpaceInvaders`."""
    return IDS.get(game, game.replace(" ", ""))


def setting(scale: Scale, names: Sequence[str], human: str = "") -> Setting:
    """The named games."""
    named = {name: env_of(name) for name in names}
    if scale == "smoke":
        overrides = options(
            hidden=32,
            num_atoms=11,
            noisy=False,
            num_envs=4,
            steps_per_update=16,
            min_replay_steps=200,
            replay_steps=2_000,
            epsilon_decay_steps=500,
            embedding=0,
            log_every_frames=2_000,
            eval_every_frames=0,
            eval_episodes=2,
        )
        return Setting(named, 4_000, (0,), "atari", overrides, play_steps=4_000, human=human_play(human))
    if scale == "laptop":
        overrides = options(
            **QUICK,
            replay_steps=100_000,
            min_replay_steps=2_000,
            embedding=0,
            log_every_frames=10_000,
            eval_every_frames=20_000,
            eval_episodes=16,
            checkpoint_every_frames=30_000,
        )
        easier = ("size=42", "sticky=0") + (("full_actions=false",) if len(named) == 1 and not human else ())
        play = human_play(human)
        return Setting(named, 60_000, (0, 1, 2), "atari", overrides, env_options=easier, human=play)
    swept = SWEEPS["paper-atari"]
    return Setting(
        named,
        2_000_000_000,
        tuple(range(5)),
        "paper-atari",
        play_frames=200_000_000,
        play_steps=1_000_000,
        literal=True,
        weights=swept["penalty_weight"],
        rates=swept["meta_learning_rate"],
        human=human_play(human),
    )


NOTES: dict[Scale, str] = {
    "smoke": "1,000 steps of a tiny network: shows that it runs, compares nothing",
    "laptop": "60,000 frames of 42 x 42, no sticky actions, where the paper has 2 billion of 84 x 84; "
    "macros of a Rainbow agent's play",
    "paper": "5 seeds, the paper names no number; games without human play: macros of a Rainbow agent's play",
}
