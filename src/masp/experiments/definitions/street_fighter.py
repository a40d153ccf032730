"""Street Fighter II with two sets of combos; without its ROM, a game that stable-retro ships is played instead.

Penalty weights: the preset `paper-sf2` has the paper's sum over actions, the scale paper sweeps the paper's values.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from masp.experiments.controls import COMPARED
from masp.experiments.definitions.games import sweep_of
from masp.experiments.experiment import Cell, Experiment, Scale, options
from masp.experiments.trial import Trial
from masp.presets import SWEEPS

SETS = {"Macro-actions I": "combos=I", "Macro-actions II": "combos=II"}
GAME = "street-fighter"
STAND_IN = ("Airstriker (stand-in)", "Airstriker-Genesis-v0", ("buttons=LEFT,RIGHT,B",))

SMOKE = options(
    hidden=32,
    num_atoms=11,
    noisy=False,
    num_envs=2,
    steps_per_update=16,
    min_replay_steps=200,
    replay_steps=2_000,
    epsilon_decay_steps=500,
    embedding=0,
    log_every_frames=1_000,
    eval_every_frames=0,
    eval_episodes=1,
)
LAPTOP = options(
    num_envs=4,
    steps_per_update=8,
    epsilon_decay_steps=25_000,
    replay_steps=50_000,
    min_replay_steps=5_000,
    embedding=0,
    log_every_frames=20_000,
    eval_every_frames=100_000,
    eval_episodes=4,
)


def rom_is_there() -> bool:
    """Whether the ROM of Street Fighter II is installed."""
    if importlib.util.find_spec("stable_retro") is None:
        return False
    from masp.environments.retro_games import find_game

    return find_game("StreetFighterIISpecialChampionEdition-Genesis-v0").rom is not None


def _cells(scale: Scale) -> list[Cell]:
    """The scale paper needs the game itself; smaller scales play what is installed."""
    if scale == "paper":
        return _fights(500_000_000, tuple(range(5)), (), SWEEPS["paper-sf2"])
    frames, seeds, overrides = (2_000, (0,), SMOKE) if scale == "smoke" else (200_000, (0, 1, 2), LAPTOP)
    if rom_is_there():
        return _fights(frames, seeds, overrides, None)
    name, env, env_options = STAND_IN
    return [
        Cell((name,), control, Trial(env, frames, seeds, control, "retro", env_options, overrides=overrides))
        for control in COMPARED
    ]


def _fights(frames: int, seeds: tuple[int, ...], overrides: tuple, sweep: dict[str, Any] | None) -> list[Cell]:
    cells = []
    for name, combos in SETS.items():
        for control in COMPARED:
            swept = sweep_of(control, sweep["penalty_weight"], sweep["meta_learning_rate"]) if sweep else None
            trial = Trial(GAME, frames, seeds, control, "paper-sf2", (combos,), overrides=overrides, sweep=swept)
            cells.append(Cell((name,), control, trial))
    return cells


_STAND_IN_TITLE = "Airstriker, a STAND-IN for Street Fighter II"
_STAND_IN_NOTE = (
    "the ROM of Street Fighter II is not installed, so another game was played: these figures say nothing about the "
    "paper's. With your own ROM: python -m stable_retro.import DIR"
)
EXPERIMENTS = {
    "street-fighter": Experiment(
        name="street-fighter",
        title="Street Fighter II, two sets of 24 combos",
        measure="return",
        row_names=("macro set",),
        cells=_cells,
        paper_table="street-fighter",
        titles={} if rom_is_there() else {"smoke": _STAND_IN_TITLE, "laptop": _STAND_IN_TITLE},
        notes={} if rom_is_there() else {"smoke": _STAND_IN_NOTE, "laptop": _STAND_IN_NOTE},
    )
}
