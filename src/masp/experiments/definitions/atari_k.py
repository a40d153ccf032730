"""Atari, number of macros."""

from __future__ import annotations

from masp.experiments.definitions.atari_settings import FIVE, LAPTOP_GAME, NOTES, setting
from masp.experiments.definitions.games import number_of_macros
from masp.experiments.experiment import Cell, Experiment, Scale


def cells(scale: Scale, human: str = "") -> list[Cell]:
    if scale == "smoke":
        return number_of_macros(setting(scale, ("Breakout",), human), (64,))
    names, ks = ((LAPTOP_GAME,), (64, 256)) if scale == "laptop" else (FIVE, (64, 128, 256, 512, 1024))
    return number_of_macros(setting(scale, names, human), ks)


EXPERIMENT = Experiment(
    name="atari-k",
    title="Atari, number of mined macros",
    measure="return",
    row_names=("game", "number of macros"),
    cells=cells,
    paper_table="atari-k",
    notes=NOTES,
    uses_human_play=True,
    kind="lines",
)
