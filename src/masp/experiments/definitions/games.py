"""What the experiments on games have in common: the comparison, and the ablations of number, noise and source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from masp.experiments.definitions.controls import COMPARED
from masp.experiments.experiment import Cell
from masp.experiments.trial import MacroSet, Play, Sweep, Trial
from masp.report.scores import Judged

RECORDING_SEED = 1000
"""Of the agent whose play the macros come from; never a reported one."""
SELECTION_SEEDS = (100, 101)
"""Of the candidates of sweeps."""
K = 32
"""Macros of the main comparison, as in the paper."""


@dataclass(frozen=True)
class Setting:
    """One scale of a family of games."""

    games: dict[str, str]
    """What the table calls a game, and its environment."""
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
    literal: bool = False
    """Mine as the paper does."""
    weights: tuple[float, ...] = ()
    """Penalty weights to choose from on other seeds; empty: the preset's."""
    rates: tuple[float, ...] = ()
    """Meta-learning rates to choose from."""
    judged: Judged = "last"
    """What the best of them is best at."""
    human: Callable[[str], Play | None] = lambda env: None
    """People's play of an environment, where there is some."""

    def trial(self, game: str, control: str, macros: MacroSet | None = None, source: Trial | None = None) -> Trial:
        """One cell."""
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
        """The k macros of a game's recorded play, some of them replaced."""
        play = self.human(self.games[game])
        if play is None:
            agent = dataclasses.replace(
                self.trial(game, "rainbow"), seeds=(RECORDING_SEED,), frames=self.play_frames or self.frames
            )
            play = Play(agent, self.play_steps)
        return MacroSet(play, k, literal=self.literal, noise=noise)

    def _sweep(self, control: str) -> Sweep | None:
        if not self.weights or control in ("rainbow", "macros"):
            return None
        return Sweep(self.weights, self.rates if control == "masp" else (), SELECTION_SEEDS, judged=self.judged)


def comparison(setting: Setting, own_macros: bool = False) -> list[Cell]:
    """Every game under every control."""
    found = []
    for game in setting.games:
        macros = None if own_macros else setting.macros(game)
        found += [Cell((game,), control, setting.trial(game, control, macros)) for control in COMPARED]
    return found


def number_of_macros(setting: Setting, ks: Sequence[int]) -> list[Cell]:
    """Rows (game, k); k = 0 is Rainbow on primitives."""
    found = []
    for game in setting.games:
        found.append(Cell((game, "0"), "rainbow", setting.trial(game, "rainbow")))
        for k in ks:
            macros = setting.macros(game, k)
            found += [Cell((game, str(k)), control, setting.trial(game, control, macros)) for control in COMPARED[1:]]
    return found


def noisy_macros(setting: Setting, chances: Sequence[float]) -> list[Cell]:
    """Rows (game, chance that a macro is replaced); Rainbow knows no macros and stands in the first row."""
    found = []
    for game in setting.games:
        found.append(Cell((game, f"{chances[0]:g}"), "rainbow", setting.trial(game, "rainbow")))
        for chance in chances:
            macros = setting.macros(game, noise=chance)
            row = (game, f"{chance:g}")
            found += [Cell(row, control, setting.trial(game, control, macros)) for control in COMPARED[1:]]
    return found


def transfer(setting: Setting) -> list[Cell]:
    """Rows are the games that are played, columns those whose macros and similarity are taken over, frozen.

    Beside them what a game reaches with its own macros: without macros, without penalty, with a uniform similarity and
    with one that is learned along.
    """
    learned = {game: setting.trial(game, "masp", setting.macros(game)) for game in setting.games}
    found = []
    for target in setting.games:
        for source in setting.games:
            found.append(Cell((target,), source, setting.trial(target, "transfer", source=learned[source])))
        for control in ("rainbow", "macros", "uniform", "random", "overlap"):
            found.append(Cell((target,), control, setting.trial(target, control, setting.macros(target))))
        found.append(Cell((target,), "masp", learned[target]))
    return found
