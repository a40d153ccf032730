"""Atari, macros and similarity of another game, frozen. All games have all 18 primitives, so bundles fit."""

from __future__ import annotations

from masp.experiments.definitions.atari_settings import FOUR, NOTES, setting
from masp.experiments.definitions.games import transfer
from masp.experiments.experiment import Cell, Experiment, Scale


def cells(scale: Scale, human: str = "") -> list[Cell]:
    names = FOUR if scale == "paper" else ("Breakout", "Space Invaders")
    return transfer(setting(scale, names, human))


EXPERIMENT = Experiment(
    name="atari-transfer",
    title="Atari, similarity of another game (columns), frozen",
    measure="return",
    row_names=("target",),
    cells=cells,
    paper_table="atari-transfer",
    notes=NOTES,
    uses_human_play=True,
    kind="matrix",
)
