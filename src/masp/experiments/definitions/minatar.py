"""MinAtar, the affordable counterpart of Atari: comparison, ablations, and `structure-minatar` with swept weights.

The ablations learn scalar values without an embedding: with 1024 macros, 51 atoms would make 6.7 million weights of
the last layer, and an embedding of the similarity 17 million. All variants are treated alike.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from masp.environments.registry import MINATAR_IDS
from masp.experiments.controls import COMPARED
from masp.experiments.definitions.games import (
    SELECTION_SEEDS,
    K,
    Setting,
    comparison,
    noisy_macros,
    number_of_macros,
    transfer,
    transfer_agents,
)
from masp.experiments.experiment import Cell, Experiment, Scale, options, with_intra_option
from masp.experiments.trial import Sweep, Trial
from masp.presets import PAPER, SWEEPS

TITLES = {name.removeprefix("minatar-").replace("_", " ").title(): name for name in MINATAR_IDS}
"""`Space Invaders` to `minatar-space_invaders`."""
ALL, PAIR, ONE = tuple(TITLES), ("Breakout", "Space Invaders"), ("Breakout",)
"""The paper finds Breakout and Space Invaders similar."""
TWO = ("Breakout", "Asterix")
"""The games of the controls and ablations; Asterix played no part in settling the defaults."""
SEEDS = (60, 61, 62)
"""Seeds of the laptop's tables; nothing was tuned on these."""
FRAMES = 1_000_000
"""Of a run at the scale laptop: the main comparison of five games takes two cores about two hours."""
DEFAULTS = {"rainbow": "rainbow", "macros": "macros as it comes", "masp": "masp as it comes"}
"""Columns of the comparison at our defaults, and their controls."""
ABLATED = ("macros", "uniform", "masp")
"""Controls of the ablations at the scale laptop."""

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
    "laptop": "macros mined from the better half of the episodes of a Rainbow agent trained with another seed",
    "paper": "the paper has no MinAtar; its sweeps and numbers of macros, the settings of Revisiting Rainbow",
}

STRUCTURE_FRAMES = 100_000
MANY = 1024
FIRST_FRESH_SEED = 40
"""First seed for macros that only explore: nothing was tuned on these seeds, and `defaults-minatar` uses 20 to 49, so
some runs of `macros` and `rainbow` are in both."""


def short(scale: Scale, games: tuple[str, ...] = ALL, weight: float | None = WEIGHT) -> Setting:
    """Runs that show that everything works (smoke), and those of `structure-minatar` and `defaults-minatar` (laptop).

    `weight` None: that of the preset.
    """
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
    overrides = options(
        **QUICK,
        **penalty,
        epsilon_decay_steps=50_000,
        log_every_frames=15_000,
        eval_every_frames=30_000,
    )
    return Setting(ids, 150_000, (0, 1, 2), "minatar", overrides, True)


def full(games: tuple[str, ...] = ALL) -> Setting:
    """The preset at a tenth of its frames; macros mined from the better half of the episodes of a Rainbow agent."""
    ids = {game: TITLES[game] for game in games}
    return Setting(ids, FRAMES, SEEDS, "minatar", play_steps=100_000, play_overrides=(), successful=0.5)


def ablated(games: tuple[str, ...] = TWO) -> Setting:
    """With `QUICK` learning, for ablations with up to 1024 macros; the macros are those of `full`."""
    overrides = options(**QUICK, penalty_weight=WEIGHT, eval_every_frames=100_000)
    return dataclasses.replace(full(games), overrides=overrides, together=True)


def paper(games: tuple[str, ...]) -> Setting:
    """The paper's sweeps at the preset's ten million frames."""
    sweep = SWEEPS["paper-atari"]
    return Setting(
        {game: TITLES[game] for game in games},
        10_000_000,
        tuple(range(10)),
        "minatar",
        options(penalty_form="sum"),
        together=True,
        weights=sweep["penalty_weight"],
        rates=sweep["meta_learning_rate"],
    )


def _comparison(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return comparison(short(scale, ONE))
    if scale == "paper":
        return comparison(paper(ALL))
    return _main_table()


def _main_table() -> list[Cell]:
    """All games at our defaults; two of them also in the paper's settings, with controls, and with action repeats."""
    setting = full()
    cells = []
    for game in setting.games:
        mined = setting.macros(game)
        cells += [Cell((game,), column, setting.trial(game, DEFAULTS[column], mined)) for column in DEFAULTS]
    for game in TWO:
        rainbow, mined = setting.trial(game, "rainbow"), setting.macros(game)
        # Intra-option learning doubles the rows of a batch; this is as many rows without any macros.
        cells.append(Cell((game,), "rainbow twice the batch", rainbow.with_overrides(batch_size=64)))
        cells.append(Cell((game,), "uniform", setting.trial(game, "uniform as it comes", mined)))
        for column in ("macros", "masp"):
            cells.append(Cell((game,), f"{column} repeats", setting.trial(game, DEFAULTS[column])))
            cells.append(Cell((game,), f"{column} paper", _as_in_the_paper(setting.trial(game, column, mined))))
    return cells


def _as_in_the_paper(trial: Trial) -> Trial:
    """Macros as actions like all others, the meta-gradient as in Algorithm 1, the weight chosen on other seeds."""
    if trial.control == "masp":
        sweep = Sweep(WEIGHTS, (), SELECTION_SEEDS, frames=250_000)
        trial = dataclasses.replace(trial, sweep=sweep).with_overrides(**PAPER)
    return trial


def _k(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return number_of_macros(short(scale, ONE), (32, 256))
    if scale == "laptop":
        return number_of_macros(ablated(), (32, 256, 1024), ABLATED)
    return number_of_macros(paper(ALL), (32, 64, 128, 256, 512, 1024))


def _noise(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return noisy_macros(short(scale, ONE), (0.0, 0.75))
    if scale == "laptop":
        return noisy_macros(ablated(), (0.0, 0.5, 0.75), ABLATED)
    return noisy_macros(paper(ALL), (0.0, 0.25, 0.5, 0.75))


def _transfer(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return transfer(short(scale, PAIR))
    return transfer(ablated(PAIR) if scale == "laptop" else paper(ALL))


def _transfer_agents(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return transfer_agents(short(scale, ONE))
    return transfer_agents(ablated(PAIR) if scale == "laptop" else paper(ALL))


def _structure(scale: Scale) -> list[Cell]:
    """Smoke is that of `minatar`; laptop plays one game with ten seeds, paper all five with thirty."""
    if scale == "smoke":
        return comparison(short(scale, ONE))
    laptop = short("laptop", ONE if scale == "laptop" else ALL)
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
    laptop = short("laptop", (game,), None)
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
    "minatar-transfer-agents": _experiment(
        name="minatar-transfer-agents",
        title="MinAtar, agents of another game (columns) that go on learning",
        row_names=("target", "judged"),
        cells=_transfer_agents,
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
            "laptop": "macros mined from the play of a Rainbow agent trained with another seed; scalar values, no "
            "embedding; each control at the best of three weights (four for exploring) on other seeds",
            "paper": "the same, five games, 30 seeds",
        },
    ),
}
