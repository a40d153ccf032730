"""A trial: everything that decides the result of a training, as one frozen record.

Trials name other trials where they need them, so a list of trials is also the order in which they can run.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

from masp.errors import UserError
from masp.experiments.definitions.controls import CONTROLS, TAKEN_OVER
from masp.report.scores import Judged


@dataclass(frozen=True)
class Play:
    """Recorded play that macros are mined from: of a trained agent, or files of people's play."""

    agent: Trial | None = None
    """Trained first; its first seed plays."""
    steps: int = 50_000
    """Steps that the agent plays."""
    epsilon: float = 0.1
    """Chance of a random decision while it plays, so that the play has variety."""
    files: tuple[str, ...] = ()
    """Recordings that `masp mine` reads; used when there is no agent."""
    digest: str = ""
    """Hash of what the files hold."""
    stride: int = 1
    """Take every stride-th action of the files (Atari: 4)."""


@dataclass(frozen=True)
class MacroSet:
    """How a macro file is made."""

    play: Play | None = None
    """What to mine; None: the environment's own macros."""
    k: int = 32
    """How many macros to mine."""
    min_length: int = 3
    max_length: int = 8
    literal: bool = False
    """The paper's heuristic: the most frequent sequences, nothing filtered."""
    noise: float = 0.0
    """Chance that a macro is replaced by a random sequence of the same length."""
    noise_seed: int = 0


SWEPT = ("penalty_weight", "meta_learning_rate")
"""Fields that a sweep chooses."""


@dataclass(frozen=True)
class Sweep:
    """Settings to choose from, on seeds of their own: the reported seeds play no part in the choice.

    But a similarity that is taken over comes from the source's first seeds, for candidates as for the first reported.
    """

    penalty_weight: tuple[float, ...]
    meta_learning_rate: tuple[float, ...] = ()
    """Empty: only the weight is swept."""
    seeds: tuple[int, ...] = (100, 101)
    frames: int = 0
    """Frames per candidate; 0: as many as the trial."""
    judged: Judged = "last"
    """What the best candidate is best at."""


@dataclass(frozen=True)
class Trial:
    """One setting, trained with one or more seeds."""

    env: str
    frames: int
    seeds: tuple[int, ...]
    control: str = "masp"
    """What is done about the similarity, one of `CONTROLS`; decides the variant."""
    preset: str = "auto"
    env_options: tuple[str, ...] = ()
    macros: MacroSet | None = None
    """None: the environment's own macros as they are."""
    source: Trial | None = None
    """Trained first; each seed takes over macros and similarity of the source's seed at the same place."""
    overrides: tuple[tuple[str, Any], ...] = ()
    """Fields of the configuration that differ from the preset, by name."""
    sweep: Sweep | None = None
    together: bool = False
    """Up to ten seeds (`plan.TOGETHER`) train in one program; only where the environment is in JAX."""

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise UserError(f"there is no control {self.control!r}; choose one of {', '.join(CONTROLS)}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds must be different and at least one, got {self.seeds}")
        if (self.control in TAKEN_OVER) != (self.source is not None):
            raise ValueError(f"the controls {' and '.join(TAKEN_OVER)} and only they take a source")
        if self.sweep and set(self.sweep.seeds) & set(self.seeds):
            raise ValueError(f"a sweep must not use reported seeds, got {self.sweep.seeds} and {self.seeds}")
        if self.source and len(self.source.seeds) < len(self.seeds):
            raise ValueError(f"{len(self.seeds)} seeds need as many sources, got {len(self.source.seeds)}")

    @property
    def variant(self) -> str:
        """What `masp train` calls it."""
        return str(CONTROLS[self.control]["variant"])

    @property
    def player(self) -> Trial | None:
        """The agent whose play this trial's macros are mined from."""
        if self.control == "rainbow" or self.macros is None or self.macros.play is None:
            return None
        return self.macros.play.agent

    def with_overrides(self, **changes: Any) -> Trial:
        """The same trial with some fields of its configuration changed."""
        merged = {**dict(self.overrides), **changes}
        return dataclasses.replace(self, overrides=tuple(sorted(merged.items())))

    def candidates(self) -> list[Trial]:
        """The settings of the sweep, each as a trial on the sweep's own seeds; empty without a sweep."""
        if self.sweep is None:
            return []
        base = dataclasses.replace(self, sweep=None, seeds=self.sweep.seeds, frames=self.sweep.frames or self.frames)
        rates: tuple[float | None, ...] = self.sweep.meta_learning_rate or (None,)
        settings = itertools.product(self.sweep.penalty_weight, rates)
        return [
            base.with_overrides(penalty_weight=weight, **({} if rate is None else {"meta_learning_rate": rate}))
            for weight, rate in settings
        ]

    def needs(self) -> list[Trial]:
        """Trials that must be finished before this one can start."""
        needed = self.candidates()
        needed += [found for found in (self.source, self.player) if found is not None]
        return needed


def to_json(trial: Trial) -> dict[str, Any]:
    """The trial as JSON values, trials inside it included."""
    return dataclasses.asdict(trial)


def from_json(data: dict[str, Any]) -> Trial:
    """The inverse of `to_json`."""
    values = dict(data)
    values["seeds"] = tuple(values["seeds"])
    values["env_options"] = tuple(values["env_options"])
    values["overrides"] = tuple((name, _tuple(value)) for name, value in values["overrides"])
    if values["macros"] is not None:
        values["macros"] = _macros_from_json(values["macros"])
    if values["source"] is not None:
        values["source"] = from_json(values["source"])
    if values["sweep"] is not None:
        values["sweep"] = Sweep(**{name: _tuple(value) for name, value in values["sweep"].items()})
    return Trial(**values)


def _macros_from_json(data: dict[str, Any]) -> MacroSet:
    values = dict(data)
    if values["play"] is not None:
        play = dict(values["play"])
        play["files"] = tuple(play["files"])
        play["agent"] = None if play["agent"] is None else from_json(play["agent"])
        values["play"] = Play(**play)
    return MacroSet(**values)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
