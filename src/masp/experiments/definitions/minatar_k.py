"""MinAtar, number of macros: does the penalty save what more macros cost?"""

from __future__ import annotations

from masp.experiments.definitions.games import number_of_macros
from masp.experiments.definitions.minatar_settings import NOTES, TITLES, setting
from masp.experiments.experiment import Cell, Experiment, Scale, credited

KS = (32, 64, 128, 256, 512, 1024)


def cells(scale: Scale) -> list[Cell]:
    if scale == "smoke":
        return number_of_macros(setting(scale, ("Breakout",)), (32, 256))
    if scale == "laptop":
        return _with_credit(number_of_macros(setting(scale, ("Breakout",)), (32, 256, 1024)))
    return _with_credit(number_of_macros(setting(scale, tuple(TITLES)), KS))


def _with_credit(found: list[Cell]) -> list[Cell]:
    """Also what credit inside macros does, with the fewest macros."""
    fewest = [cell for cell in found if cell.row[1] == str(KS[0])]
    return found + [credited(cell) for cell in fewest if cell.column in ("macros", "masp")]


EXPERIMENT = Experiment(
    name="minatar-k",
    title="MinAtar, number of mined macros",
    measure="return",
    row_names=("game", "number of macros"),
    cells=cells,
    notes=NOTES,
    kind="lines",
)
