"""Atari: the comparison and the ablations. One game for minutes, one for hours, all 54 as in the paper.

Penalty weights: smoke and laptop use that of the preset `atari` (a mean over actions); the scale paper uses the paper's
sum over actions and sweeps the paper's values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from masp.errors import UserError
from masp.experiments.definitions.games import Setting, comparison, noisy_macros, number_of_macros, transfer
from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.trial import Play
from masp.presets import SWEEPS
from masp.report.paper import paper

IDS = {
    "Montezuma's Revenge": "MontezumaRevenge",
    "Q Bert": "Qbert",
    "Wizard of Wor": "WizardOfWor",
    "Yarr's Revenge": "YarsRevenge",
}
"""Games whose name in the paper is not their id with spaces."""
FIVE = ("Breakout", "Frostbite", "Ms Pacman", "Seaquest", "Space Invaders")
"""The games of the paper's main text and ablations."""
FOUR = ("Breakout", "Montezuma's Revenge", "Private Eye", "Space Invaders")
"""The games of its transfer table."""
ONE = ("Breakout",)

SMOKE = options(
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
LAPTOP = options(
    # Images of 42 x 42: an update takes a tenth of the time, and learning shows within 100,000 frames.
    noisy=False,
    hidden=256,
    n_step=10,
    steps_per_update=2,
    epsilon=(1.0, 0.05),
    epsilon_decay_steps=10_000,
    eval_epsilon=0.05,
    target_period_steps=1_000,
    learning_rate=2e-4,
    # a short run needs more frequent meta-steps than the preset has
    meta_period_updates=8,
    replay_steps=100_000,
    min_replay_steps=2_000,
    embedding=0,
    log_every_frames=10_000,
    eval_every_frames=20_000,
    eval_episodes=16,
)
NOTES: dict[Scale, str] = {
    "smoke": "1,000 steps of a tiny network: shows that it runs, compares nothing",
    "laptop": "60,000 frames of 42 x 42 without sticky actions, where the paper has 2 billion of 84 x 84; "
    "macros mined from a Rainbow agent's play",
    "paper": "5 seeds, the paper names no number; games without human play: macros mined from a Rainbow agent's play",
}
STRIDE = 4
"""Frames per action of the agents, for human play, which has one action per frame."""
GRAND_CHALLENGE_NAMES = {"montezumarevenge": "revenge"}
"""Games whose folder in the Atari Grand Challenge is not their id in lower case."""


def games() -> list[str]:
    """All games of the paper, by its names."""
    return [row[0] for row in paper()["tables"]["atari"]["cells"]]


def setting(scale: Scale, names: Sequence[str], human: str = "") -> Setting:
    """The named games; `human` is a folder of human play."""
    ids = {name: IDS.get(name, name.replace(" ", "")) for name in names}
    play = human_play(human)
    if scale == "smoke":
        return Setting(ids, 4_000, (0,), "atari", SMOKE, play_steps=4_000, human=play)
    if scale == "laptop":
        # With all 18 actions, sticky, a short run learned nothing (docs/log). A game that shares its actions
        # neither with another game nor with human play uses its own few.
        own_actions = ("full_actions=false",) if len(ids) == 1 and not human else ()
        env_options = ("size=42", "sticky=0", *own_actions)
        return Setting(ids, 60_000, (0, 1, 2), "atari", LAPTOP, env_options=env_options, human=play)
    sweep = SWEEPS["paper-atari"]
    return Setting(
        ids,
        2_000_000_000,
        tuple(range(5)),
        "paper-atari",
        play_frames=200_000_000,
        play_steps=1_000_000,
        literal=True,
        weights=sweep["penalty_weight"],
        rates=sweep["meta_learning_rate"],
        human=play,
    )


def human_play(folder: str) -> Callable[[str], Play | None]:
    """From the id of a game to human play of it; `folder` has one folder of text files per game, "" none."""
    if folder and not Path(folder).is_dir():
        raise UserError(f"--human {folder}: there is no such folder")

    def find(env: str) -> Play | None:
        name = env.lower()
        for game in (name, GRAND_CHALLENGE_NAMES.get(name, name)) if folder else ():
            place = Path(folder) / game
            if place.is_dir():
                return Play(files=(str(place),), digest=_digest(place), stride=STRIDE)
        return None

    return find


@cache
def _digest(folder: Path) -> str:
    """Hash of the play in a folder, wherever the folder is."""
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*.txt")):
        total.update(file.name.encode())
        with open(file, "rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()[:16]


def _comparison(scale: Scale, human: str = "") -> list[Cell]:
    return comparison(setting(scale, games() if scale == "paper" else ONE, human))


def _k(scale: Scale, human: str = "") -> list[Cell]:
    ks = {"smoke": (64,), "laptop": (64, 256), "paper": (64, 128, 256, 512, 1024)}[scale]
    return number_of_macros(setting(scale, FIVE if scale == "paper" else ONE, human), ks)


def _noise(scale: Scale, human: str = "") -> list[Cell]:
    probabilities = (0.5,) if scale == "smoke" else (0.0, 0.25, 0.5, 0.75)
    return noisy_macros(setting(scale, FIVE if scale == "paper" else ONE, human), probabilities)


def _transfer(scale: Scale, human: str = "") -> list[Cell]:
    """All games have all 18 primitives, so that bundles of one fit the others."""
    return transfer(setting(scale, FOUR if scale == "paper" else ("Breakout", "Space Invaders"), human))


_experiment = partial(Experiment, measure="return", notes=NOTES, uses_human_play=True)
EXPERIMENTS = {
    "atari": _experiment(
        name="atari", title="Atari, 32 mined macros", row_names=("game",), cells=_comparison, paper_table="atari"
    ),
    "atari-k": _experiment(
        name="atari-k",
        title="Atari, number of mined macros",
        row_names=("game", "number of macros"),
        cells=_k,
        paper_table="atari-k",
        kind="lines",
    ),
    "atari-noise": _experiment(
        name="atari-noise",
        title="Atari, macros replaced by random ones",
        row_names=("game", "P(replace)"),
        cells=_noise,
        paper_table="atari-noise",
        kind="lines",
    ),
    "atari-transfer": _experiment(
        name="atari-transfer",
        title="Atari, similarity of another game (columns), frozen",
        row_names=("target",),
        cells=_transfer,
        paper_table="atari-transfer",
        kind="matrix",
    ),
}
