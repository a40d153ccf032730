"""What experiments on games share: the comparison of controls, and ablations of the macros."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from masp.experiments.controls import COMPARED, FROZEN, UNPENALISED
from masp.experiments.experiment import Cell
from masp.experiments.trial import MacroSet, Play, Sweep, Trial
from masp.report.tables import Judged

RECORDING_SEED = 1000
"""Seed of the agent whose play the macros are mined from; never a reported one."""
SELECTION_SEEDS = (100, 101)
"""Seeds of the candidates of sweeps."""
K = 32
"""Number of macros of the main comparison, as in the paper."""


@dataclass(frozen=True)
class Setting:
    """One scale of a family of games."""

    games: dict[str, str]
    """Name in the table to environment id."""
    frames: int
    seeds: tuple[int, ...]
    preset: str
    overrides: tuple[tuple[str, Any], ...] = ()
    together: bool = False
    env_options: tuple[str, ...] = ()
    play_frames: int = 0
    """Frames that the recorded agent trains for; 0: as many as the others."""
    play_steps: int = 50_000
    """Steps that are recorded of it."""
    play_overrides: tuple[tuple[str, Any], ...] | None = None
    """Settings of the recorded agent; None: those of the others."""
    successful: float = 1.0
    """Share of the recorded episodes, the best by return, that macros are mined from."""
    literal: bool = False
    """Mine with the paper's heuristic."""
    weights: tuple[float, ...] = ()
    """Penalty weights to choose from on other seeds; empty: no sweep."""
    rates: tuple[float, ...] = ()
    """Meta-learning rates to choose from."""
    judged: Judged = "last"
    """The score that a sweep maximises."""
    human: Callable[[str], Play | None] = lambda env: None
    """Human play of an environment, where there is some."""

    def trial(self, game: str, control: str, macros: MacroSet | None = None, source: Trial | None = None) -> Trial:
        """The trial of one cell."""
        return Trial(
            env=self.games[game],
            frames=self.frames,
            seeds=self.seeds,
            control=control,
            preset=self.preset,
            env_options=self.env_options,
            macros=macros,
            source=source,
            overrides=self.overrides,
            sweep=self._sweep(control),
            together=self.together,
        )

    def macros(self, game: str, k: int = K, noise: float = 0.0) -> MacroSet:
        """The k macros of a game's recorded play, replaced with probability `noise`."""
        play = self.human(self.games[game])
        if play is None:
            agent = dataclasses.replace(
                self.trial(game, "rainbow"),
                seeds=(RECORDING_SEED,),
                frames=self.play_frames or self.frames,
                overrides=self.overrides if self.play_overrides is None else self.play_overrides,
            )
            play = Play(agent, steps=self.play_steps, successful=self.successful)
        return MacroSet(play, k, literal=self.literal, noise=noise)

    def _sweep(self, control: str) -> Sweep | None:
        return sweep_of(control, self.weights, self.rates, self.judged) if self.weights else None


def sweep_of(
    control: str, weights: tuple[float, ...], rates: tuple[float, ...], judged: Judged = "last"
) -> Sweep | None:
    """The sweep of a control: none without a penalty, no rates where nothing is learned."""
    if control in UNPENALISED:
        return None
    return Sweep(weights, () if control in FROZEN else rates, SELECTION_SEEDS, judged=judged)


def comparison(setting: Setting) -> list[Cell]:
    """Every game under every control."""
    cells = []
    for game in setting.games:
        macros = setting.macros(game)
        cells += [Cell((game,), control, setting.trial(game, control, macros)) for control in COMPARED]
    return cells


def number_of_macros(setting: Setting, ks: Sequence[int], controls: Sequence[str] = COMPARED[1:]) -> list[Cell]:
    """Rows (game, k); k = 0 is Rainbow on primitives."""
    cells = []
    for game in setting.games:
        cells.append(Cell((game, "0"), "rainbow", setting.trial(game, "rainbow")))
        for k in ks:
            macros = setting.macros(game, k)
            cells += [Cell((game, str(k)), control, setting.trial(game, control, macros)) for control in controls]
    return cells


def noisy_macros(
    setting: Setting, probabilities: Sequence[float], controls: Sequence[str] = COMPARED[1:]
) -> list[Cell]:
    """Rows (game, probability that a macro is replaced); Rainbow has no macros and stands in the first row."""
    cells = []
    for game in setting.games:
        cells.append(Cell((game, f"{probabilities[0]:g}"), "rainbow", setting.trial(game, "rainbow")))
        for noise in probabilities:
            macros = setting.macros(game, noise=noise)
            row = (game, f"{noise:g}")
            cells += [Cell(row, control, setting.trial(game, control, macros)) for control in controls]
    return cells


MEASURES: dict[str, Judged] = {"before learning": "first", "mean of the run": "run", "at the end": "last"}
"""Rows of `transfer_agents`: initial performance, speed of adaptation, and final performance."""


def transfer_agents(setting: Setting) -> list[Cell]:
    """Rows (game, measure); columns are the games whose whole agent goes on learning, with its similarity too or fixed.

    Further columns show agents that begin anew; before learning, they know nothing.
    """
    learned = {game: setting.trial(game, "masp", setting.macros(game)) for game in setting.games}
    cells = []
    for target in setting.games:
        columns = {"rainbow": setting.trial(target, "rainbow"), "masp": learned[target]}
        for source in setting.games:
            for control, suffix in (("agent", ""), ("agent frozen", ", similarity fixed")):
                columns[f"{source}{suffix}"] = setting.trial(target, control, source=learned[source])
        for row, judged in MEASURES.items():
            for column, trial in columns.items():
                if judged != "first" or trial.source is not None:
                    cells.append(Cell((target, row), column, trial, judged))
    return cells


def transfer(setting: Setting) -> list[Cell]:
    """Rows are the games that are played, columns those whose macros and similarity are used, frozen.

    Further columns show each game with its own macros: without macros, without penalty, with fixed similarities and
    with a learned one.
    """
    learned = {game: setting.trial(game, "masp", setting.macros(game)) for game in setting.games}
    cells = []
    for target in setting.games:
        for source in setting.games:
            cells.append(Cell((target,), source, setting.trial(target, "transfer", source=learned[source])))
        for control in COMPARED[:-1]:
            cells.append(Cell((target,), control, setting.trial(target, control, setting.macros(target))))
        cells.append(Cell((target,), "masp", learned[target]))
    return cells
