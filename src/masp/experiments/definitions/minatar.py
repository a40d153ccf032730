"""MinAtar, the affordable counterpart of Atari: comparison, ablations, and `structure-minatar` with swept weights.

Smoke and laptop learn scalar values without an embedding: with 1024 macros, 51 atoms would make 6.7 million weights of
the last layer, and an embedding of the similarity 17 million. All variants are treated alike.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from masp.environments.registry import MINATAR_IDS
from masp.experiments.controls import COMPARED
from masp.experiments.definitions.games import K, Setting, comparison, noisy_macros, number_of_macros, transfer
from masp.experiments.experiment import Cell, Experiment, Scale, options, with_intra_option
from masp.presets import SWEEPS

TITLES = {name.removeprefix("minatar-").replace("_", " ").title(): name for name in MINATAR_IDS}
"""`Space Invaders` to `minatar-space_invaders`."""
ALL, PAIR, ONE = tuple(TITLES), ("Breakout", "Space Invaders"), ("Breakout",)
"""The paper finds Breakout and Space Invaders similar."""

# Penalty weights are for a mean over actions: those of the sum over Breakout's 6 primitives and 32 macros times 38,
# rounded to 0.03, 0.1, 0.3, 1, 3. The scale paper keeps the paper's sum and the values that it swept.
WEIGHT = 1.0
"""With macros as in the paper (0.03 in the sum); the weight of the preset is for macros that only explore."""
WEIGHTS = (0.3, 1.0, 3.0)
"""`structure-minatar` (0.01, 0.03 and 0.1 in the sum)."""
EXPLORING_WEIGHTS = (0.03, 0.1, 0.3, 1.0)
"""The same with macros that only explore (0.001, 0.003, 0.01 and 0.03 in the sum)."""

QUICK = {
    # A quarter of Rainbow's updates with twice the batch: three seeds of 150,000 frames take minutes of one core.
    "num_atoms": 1,
    "embedding": 0,
    "num_envs": 64,
    "steps_per_update": 16,
    "batch_size": 64,
    "learning_rate": 5e-4,
    "hidden": 128,
    # so few updates need more frequent meta-steps than the preset has
    "meta_period_updates": 8,
}
NOTES: dict[Scale, str] = {
    "smoke": "far too short to compare anything",
    "laptop": "macros mined from the play of a Rainbow agent trained with another seed; scalar values, no embedding",
    "paper": "the paper has no MinAtar; its sweeps and numbers of macros, the settings of Revisiting Rainbow",
}

STRUCTURE_FRAMES = 100_000
MANY = 1024
FIRST_FRESH_SEED = 40
"""First seed for macros that only explore: nothing was tuned on these seeds, and `defaults-minatar` uses 20 to 49, so
some runs of `macros` and `rainbow` are in both."""


def setting(scale: Scale, games: tuple[str, ...] = ALL, weight: float | None = WEIGHT) -> Setting:
    """The games by title. `weight` None: that of the preset."""
    ids = {game: TITLES[game] for game in games}
    penalty = {} if weight is None else {"penalty_weight": weight}
    if scale == "smoke":
        overrides = options(
            **QUICK,
            **penalty,
            epsilon_decay_steps=5_000,
            log_every_frames=5_000,
            eval_every_frames=5_000,
            eval_episodes=16,
            replay_steps=20_000,
        )
        return Setting(ids, 10_000, (0, 1), "minatar", overrides, True, play_steps=20_000)
    if scale == "laptop":
        overrides = options(
            **QUICK,
            **penalty,
            epsilon_decay_steps=50_000,
            log_every_frames=15_000,
            eval_every_frames=30_000,
        )
        return Setting(ids, 150_000, (0, 1, 2), "minatar", overrides, True)
    sweep = SWEEPS["paper-atari"]
    return Setting(
        ids,
        10_000_000,
        tuple(range(10)),
        "minatar",
        options(penalty_form="sum"),
        together=True,
        weights=sweep["penalty_weight"],
        rates=sweep["meta_learning_rate"],
    )


def _comparison(scale: Scale) -> list[Cell]:
    return comparison(setting(scale, ONE if scale == "smoke" else ALL))


def _k(scale: Scale) -> list[Cell]:
    """Also with intra-option learning, for the smallest number of macros."""
    ks = {"smoke": (32, 256), "laptop": (32, 256, 1024), "paper": (32, 64, 128, 256, 512, 1024)}[scale]
    cells = number_of_macros(setting(scale, ALL if scale == "paper" else ONE), ks)
    if scale == "smoke":
        return cells
    fewest = [cell for cell in cells if cell.row[1] == str(ks[0])]
    return cells + [with_intra_option(cell) for cell in fewest if cell.column in ("macros", "masp")]


def _noise(scale: Scale) -> list[Cell]:
    probabilities = {"smoke": (0.0, 0.75), "laptop": (0.0, 0.5, 0.75), "paper": (0.0, 0.25, 0.5, 0.75)}[scale]
    return noisy_macros(setting(scale, ALL if scale == "paper" else ONE), probabilities)


def _transfer(scale: Scale) -> list[Cell]:
    return transfer(setting(scale, ALL if scale == "paper" else PAIR))


def _structure(scale: Scale) -> list[Cell]:
    """Smoke is that of `minatar`; laptop plays one game with ten seeds, paper all five with thirty."""
    if scale == "smoke":
        return comparison(setting(scale, ONE))
    laptop = setting("laptop", ONE if scale == "laptop" else ALL)
    seeds = tuple(range(10 if scale == "laptop" else 30))
    swept = dataclasses.replace(
        laptop,
        frames=STRUCTURE_FRAMES,
        play_frames=laptop.frames,  # the macros of `minatar`
        seeds=seeds,
        weights=WEIGHTS,
        judged="run",
    )
    cells = comparison(swept)
    cells += [with_intra_option(cell) for cell in cells if cell.column == "macros"]
    cells += _exploring("Space Invaders, for exploring", "Space Invaders", K, seeds)
    return cells + _exploring(f"Breakout, {MANY} for exploring", "Breakout", MANY, seeds)


def _exploring(row: str, game: str, k: int, seeds: tuple[int, ...]) -> list[Cell]:
    """One row with macros as the preset uses them, on seeds that nothing was tuned on."""
    laptop = setting("laptop", (game,), None)
    swept = dataclasses.replace(
        laptop,
        frames=STRUCTURE_FRAMES,
        play_frames=laptop.frames,
        seeds=tuple(FIRST_FRESH_SEED + seed for seed in seeds),
        weights=EXPLORING_WEIGHTS,
        judged="run",
    )
    controls = {column: column if column == "rainbow" else f"{column} as it comes" for column in COMPARED}
    macros = swept.macros(game, k)
    return [Cell((row,), column, swept.trial(game, control, macros)) for column, control in controls.items()]


_experiment = partial(Experiment, measure="return", notes=NOTES)
EXPERIMENTS = {
    "minatar": _experiment(name="minatar", title="MinAtar, 32 mined macros", row_names=("game",), cells=_comparison),
    "minatar-k": _experiment(
        name="minatar-k",
        title="MinAtar, number of mined macros",
        row_names=("game", "number of macros"),
        cells=_k,
        kind="lines",
    ),
    "minatar-noise": _experiment(
        name="minatar-noise",
        title="MinAtar, macros replaced by random ones",
        row_names=("game", "P(replace)"),
        cells=_noise,
        kind="lines",
    ),
    "minatar-transfer": _experiment(
        name="minatar-transfer",
        title="MinAtar, similarity of another game (columns), frozen",
        row_names=("target",),
        cells=_transfer,
        kind="matrix",
    ),
    "structure-minatar": Experiment(
        name="structure-minatar",
        title="MinAtar, 32 and 1024 mined macros, each control at its best weight",
        measure="return",
        judged="run",
        row_names=("game",),
        cells=_structure,
        notes={
            "smoke": NOTES["smoke"],
            "laptop": NOTES["laptop"]
            + "; each control at the best of three weights (four for exploring) on other seeds",
            "paper": "the same, five games, 30 seeds",
        },
    ),
}
