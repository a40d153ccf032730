"""`structure` with real macros of games: MinAtar, every control at its own best weight."""

from __future__ import annotations

import dataclasses
from typing import Any

from masp.experiments.experiment import Cell, Experiment, Scale, credited
from masp.experiments.games import comparison
from masp.experiments.minatar_settings import NOTES, TITLES, setting

WEIGHTS = (0.01, 0.03, 0.1)
FRAMES = 100_000


def cells(scale: Scale) -> list[Cell]:
    """Smoke is a smoke of `minatar`; laptop plays one game with ten seeds, paper all five with thirty."""
    if scale == "smoke":
        return comparison(setting(scale, ("Breakout",)))
    laptop = setting("laptop", ("Breakout",) if scale == "laptop" else tuple(TITLES))
    seeds = tuple(range(10 if scale == "laptop" else 30))
    # The macros are those of `minatar`, mined from an agent that trained for as long as there.
    swept: dict[str, Any] = {"weights": WEIGHTS, "judged": "run", "seeds": seeds}
    found = comparison(dataclasses.replace(laptop, frames=FRAMES, play_frames=laptop.frames, **swept))
    return found + [credited(cell) for cell in found if cell.column == "macros"]


EXPERIMENT = Experiment(
    name="structure-minatar",
    title="MinAtar, 32 mined macros, each control at its best weight",
    measure="return",
    judged="run",
    row_names=("game",),
    cells=cells,
    notes={
        "smoke": NOTES["smoke"],
        "laptop": NOTES["laptop"] + "; each control at the best of three weights on other seeds",
        "paper": "the same, five games, 30 seeds",
    },
)
