"""`structure` with real macros of games: MinAtar, every control at its own best weight."""

from __future__ import annotations

import dataclasses
from typing import Any

from masp.experiments.definitions.controls import COMPARED
from masp.experiments.definitions.games import K, comparison
from masp.experiments.definitions.minatar_settings import NOTES, TITLES
from masp.experiments.definitions.minatar_settings import setting as minatar
from masp.experiments.experiment import Cell, Experiment, Scale, credited

WEIGHTS = (0.01, 0.03, 0.1)
FRAMES = 100_000
EXPLORING_WEIGHTS = (0.001, 0.003, 0.01, 0.03)
MANY = 1024
FIRST_FRESH_SEED = 40
"""`defaults-minatar` has 20 to 29, with many macros 20 to 49: runs of `macros` and `rainbow` are in both then."""


def cells(scale: Scale) -> list[Cell]:
    """Smoke is a smoke of `minatar`; laptop plays one game with ten seeds, paper all five with thirty."""
    if scale == "smoke":
        return comparison(minatar(scale, ("Breakout",)))
    laptop = minatar("laptop", ("Breakout",) if scale == "laptop" else tuple(TITLES))
    seeds = tuple(range(10 if scale == "laptop" else 30))
    # The macros are those of `minatar`, mined from an agent that trained for as long as there.
    swept: dict[str, Any] = {"weights": WEIGHTS, "judged": "run", "seeds": seeds}
    found = comparison(dataclasses.replace(laptop, frames=FRAMES, play_frames=laptop.frames, **swept))
    found += [credited(cell) for cell in found if cell.column == "macros"]
    found += _exploring("Space Invaders, for exploring", "Space Invaders", K, seeds)
    return found + _exploring(f"Breakout, {MANY} for exploring", "Breakout", MANY, seeds)


def _exploring(row: str, game: str, k: int, seeds: tuple[int, ...]) -> list[Cell]:
    """The preset's way with macros: where it makes a difference, and with many of them; on seeds that nothing was
    settled on."""
    setting = minatar("laptop", (game,), None)
    fresh = tuple(FIRST_FRESH_SEED + seed for seed in seeds)
    wanted = dataclasses.replace(setting, frames=FRAMES, play_frames=setting.frames, seeds=fresh)
    swept = dataclasses.replace(wanted, weights=EXPLORING_WEIGHTS, judged="run")
    found = []
    for column in COMPARED:
        if column in ("rainbow", "macros"):
            control = column if column == "rainbow" else f"{column} as it comes"
            trial = wanted.trial(game, control, wanted.macros(game, k))
        else:
            trial = swept.trial(game, f"{column} as it comes", wanted.macros(game, k))
        found.append(Cell((row,), column, trial))
    return found


EXPERIMENT = Experiment(
    name="structure-minatar",
    title="MinAtar, 32 and 1024 mined macros, each control at its best weight",
    measure="return",
    judged="run",
    row_names=("game",),
    cells=cells,
    notes={
        "smoke": NOTES["smoke"],
        "laptop": NOTES["laptop"] + "; each control at the best of three weights (for exploring four) on other seeds",
        "paper": "the same, five games, 30 seeds",
    },
)
