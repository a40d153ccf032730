"""MinAtar, all games under all controls."""

from __future__ import annotations

from masp.experiments.definitions.games import comparison
from masp.experiments.definitions.minatar_settings import NOTES, TITLES, setting
from masp.experiments.experiment import Cell, Experiment, Scale


def cells(scale: Scale) -> list[Cell]:
    return comparison(setting(scale, ("Breakout",) if scale == "smoke" else tuple(TITLES)))


EXPERIMENT = Experiment(
    name="minatar",
    title="MinAtar, 32 mined macros",
    measure="return",
    row_names=("game",),
    cells=cells,
    notes=NOTES,
)
