"""`defaults` with mined macros: MinAtar, nothing swept."""

from __future__ import annotations

import dataclasses

from masp.experiments.definitions.defaults import as_it_comes
from masp.experiments.definitions.games import K, Setting
from masp.experiments.definitions.minatar_settings import NOTES, TITLES, setting
from masp.experiments.definitions.structure_minatar import FRAMES
from masp.experiments.experiment import Cell, Experiment, Scale

LAPTOP = ("Breakout", "Space Invaders")
MANY = (1024,)
FIXED = ("uniform", "random", "overlap")
"""Similarities that stand beside the learned one."""
FIRST_SEED = 20
"""The preset was settled on other seeds (docs/does-it-work.md)."""
SEEDS_OF_MANY = 30
"""Two sets of ten said opposite things about many macros, each beyond its interval."""


def cells(scale: Scale) -> list[Cell]:
    """Smoke is one game; laptop two with ten seeds, one of them with many macros too; paper all five, thirty seeds."""
    if scale == "smoke":
        return _rows(setting(scale, ("Breakout",), None), (K,))
    laptop = setting("laptop", LAPTOP if scale == "laptop" else tuple(TITLES), None)
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + (10 if scale == "laptop" else 30)))
    wanted = dataclasses.replace(laptop, frames=FRAMES, play_frames=laptop.frames, seeds=seeds)
    more = tuple(range(FIRST_SEED, FIRST_SEED + SEEDS_OF_MANY))
    one = dataclasses.replace(wanted, games={"Breakout": laptop.games["Breakout"]}, seeds=more)
    # Fixed similarities with many macros are in `structure-minatar`, each at its best weight.
    return _rows(wanted, (K,)) + _rows(one, MANY, controls=())


def _rows(setting: Setting, ks: tuple[int, ...], controls: tuple[str, ...] = FIXED) -> list[Cell]:
    found = []
    for game in setting.games:
        rainbow = setting.trial(game, "rainbow")
        twice = rainbow.with_overrides(batch_size=2 * dict(setting.overrides)["batch_size"])
        for k in ks:
            found += as_it_comes((game, str(k)), rainbow, setting.macros(game, k))
            # Credit inside macros doubles what an update learns from; this one has as much without any macros.
            found.append(Cell((game, str(k)), "rainbow twice the batch", twice))
            for control in controls:
                trial = setting.trial(game, f"{control} as it comes", setting.macros(game, k))
                found.append(Cell((game, str(k)), control, trial))
    return found


EXPERIMENT = Experiment(
    name="defaults-minatar",
    title="MinAtar at the presets, nothing swept",
    measure="return",
    judged="run",
    row_names=("game", "number of macros"),
    cells=cells,
    notes={
        "smoke": NOTES["smoke"],
        "laptop": NOTES["laptop"] + "; ten seeds, with 1024 macros thirty",
        "paper": "five games, 30 seeds",
    },
)
