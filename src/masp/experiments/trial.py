"""A trial: everything that decides the result of a training, as one frozen record, and the id of such a record.

Trials contain the trials that they need, for example the agent whose play their macros are mined from.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from masp.config import DemonstrationConfig, TrainConfig, field_sections, replace, to_flat
from masp.errors import UserError
from masp.experiments.controls import CONTROLS, FROZEN, TRANSFERRED, WHOLE_AGENTS
from masp.presets import from_preset
from masp.report.tables import Judged

SWEPT = ("penalty_weight", "meta_learning_rate")
"""Settings that a sweep chooses."""
IGNORED = ("out", "seed", "macros", "env_workers", "env_timeout", "env_restarts", "init_from", "demonstrations")
"""Settings that change no result, or that the runner fills in from the trial."""
LATER = frozenset(field.name for field in dataclasses.fields(DemonstrationConfig))
"""Settings that are newer than records of format 2. They count for an id only where they differ from their default:
otherwise a new option of the package would make all finished results look unfinished."""
BEFORE_EMBEDDINGS = {"similarity_rank": 0}
"""A setting of format 2 that is gone since, but part of the ids of all trials with a penalty."""
OUTCOMES_VERSION = 2
"""Version of `masp.similarity.outcomes`; a change of its results needs new ids."""


@dataclass(frozen=True)
class Solver:
    """Recorded play of the planner for MiniGrid (`masp record --policy solver`)."""

    episodes: int
    seed: int = 7


@dataclass(frozen=True)
class Play:
    """Recorded play that macros are mined from: of a trained agent, of a solver, or files of human play."""

    agent: Trial | None = None
    """Trained first; its first seed plays."""
    solver: Solver | None = None
    """Plays in the environment of the trial."""
    steps: int = 50_000
    """Steps that the agent plays."""
    epsilon: float = 0.1
    """Probability of a random decision while it plays, for variety."""
    files: tuple[str, ...] = ()
    """Recordings that `masp mine` reads; used when there is no agent."""
    digest: str = ""
    """Hash of the content of the files."""
    stride: int = 1
    """Take every stride-th action of the files (Atari: 4)."""
    successful: float = 1.0
    """Share of the agent's complete episodes, the best by return, that macros are mined from; 1: all play."""


@dataclass(frozen=True)
class MacroSet:
    """How a macro file is made."""

    play: Play | None = None
    """Play to mine; None: the environment's own macros."""
    k: int = 32
    """Number of macros to mine."""
    min_length: int = 3
    max_length: int = 8
    literal: bool = False
    """The paper's heuristic: the most frequent sequences without any filter."""
    noise: float = 0.0
    """Probability that a macro is replaced by a random sequence of the same length. The replacements are drawn with
    the seed of the run, so that intervals over seeds contain the draw of macros."""


@dataclass(frozen=True)
class Sweep:
    """Settings to choose from, judged on seeds of their own, which are never reported.

    A transferred similarity comes from the first seeds of its source, for candidates as for reported seeds.
    """

    penalty_weight: tuple[float, ...]
    meta_learning_rate: tuple[float, ...] = ()
    """Empty: only the weight is swept."""
    seeds: tuple[int, ...] = (100, 101)
    frames: int = 0
    """Frames per candidate; 0: as many as the trial."""
    judged: Judged = "last"
    """The score that the best candidate maximises."""


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
    """None: the environment's own macros."""
    source: Trial | None = None
    """Trained first; the i-th seed uses macros and similarity of the source's i-th seed."""
    overrides: tuple[tuple[str, Any], ...] = ()
    """Settings that differ from the preset, by name."""
    sweep: Sweep | None = None
    demonstrations: Solver | None = None
    """Play to learn from, besides the agent's own."""
    together: bool = False
    """Train up to ten seeds (`plan.TOGETHER`) in one program; needs an environment in JAX."""

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise UserError(f"there is no control {self.control!r}; choose one of {', '.join(CONTROLS)}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds must be different and at least one, got {self.seeds}")
        if (self.control in TRANSFERRED) != (self.source is not None):
            raise ValueError(f"the controls {', '.join(TRANSFERRED)} and only they take a source")
        if self.sweep and set(self.sweep.seeds) & set(self.seeds):
            raise ValueError(f"a sweep must not use reported seeds, got {self.sweep.seeds} and {self.seeds}")
        if self.sweep and self.sweep.meta_learning_rate and self.control in FROZEN:
            raise ValueError(f"the control {self.control} does not learn, so there is no meta-learning rate to sweep")
        if self.source and len(self.source.seeds) < len(self.seeds):
            raise ValueError(f"{len(self.seeds)} seeds need as many sources, got {len(self.source.seeds)}")

    @property
    def variant(self) -> str:
        """The variant of `masp train`."""
        return str(CONTROLS[self.control]["variant"])

    @property
    def player(self) -> Trial | None:
        """The agent whose play this trial's macros are mined from."""
        if self.control == "rainbow" or self.macros is None or self.macros.play is None:
            return None
        return self.macros.play.agent

    def with_overrides(self, **changes: Any) -> Trial:
        """The same trial with some settings changed."""
        merged = {**dict(self.overrides), **changes}
        return dataclasses.replace(self, overrides=tuple(sorted(merged.items())))

    def candidates(self) -> list[Trial]:
        """The settings of the sweep, each as a trial on the sweep's own seeds; empty without a sweep."""
        if self.sweep is None:
            return []
        base = dataclasses.replace(self, sweep=None, seeds=self.sweep.seeds, frames=self.sweep.frames or self.frames)
        rates: tuple[float | None, ...] = self.sweep.meta_learning_rate or (None,)
        return [
            base.with_overrides(penalty_weight=weight, **({} if rate is None else {"meta_learning_rate": rate}))
            for weight, rate in itertools.product(self.sweep.penalty_weight, rates)
        ]


def config_of(trial: Trial) -> TrainConfig:
    """The configuration of a trial, without its files, directory and seed."""
    changes = {**CONTROLS[trial.control], **dict(trial.overrides)}
    if trial.control in FROZEN:  # whatever the rate of the controls that learn
        changes["meta_learning_rate"] = 0.0
    if trial.env_options:  # otherwise those of the preset
        changes["env_options"] = trial.env_options
    return replace(from_preset(trial.preset, trial.env), frames=trial.frames, **changes).resolved()


@cache
def trial_id(trial: Trial) -> str:
    """Twelve hexadecimal digits; the same for trials that give the same results for the same seed."""
    return _hash(_recipe(trial))


def config_hash(trial: Trial) -> str:
    """Hash of the configuration alone, without the origin of macros and similarity."""
    return _hash(_deciding_settings(trial))


def macro_id(macros: MacroSet, env: str, env_options: tuple[str, ...], seed: int) -> str:
    """Name of a macro file: depends on the environment unless an agent or files were its play, and on `seed` if there
    is noise."""
    elsewhere = macros.play is not None and macros.play.solver is None
    name = _hash([_macro_recipe(macros), None if elsewhere else [env, env_options]])
    return f"{name}-{seed}" if macros.noise else name


def _hash(data: Any) -> str:
    """Twelve hexadecimal digits of the canonical JSON of `data`."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _deciding_settings(trial: Trial) -> dict[str, Any]:
    """The settings that decide the result."""
    config = config_of(trial)
    defaults, sections = to_flat(TrainConfig(env=trial.env)), field_sections()
    unused = set(IGNORED)
    if config.variant in ("rainbow", "macros"):  # no penalty: nothing reads the settings of the similarity
        unused |= {name for name, section in sections.items() if section == "similarity"}
    if config.similarity.similarity_form != "embedded":
        unused.add("similarity_form")
    settings = {
        name: value
        for name, value in to_flat(config).items()
        if name not in unused and (name not in LATER or value != defaults[name])
    }
    return settings if "similarity_start" in unused else {**BEFORE_EMBEDDINGS, **settings}


def _recipe(trial: Trial) -> dict[str, Any]:
    recipe: dict[str, Any] = {"config": _deciding_settings(trial)}
    if trial.control in ("truth", "consensus"):  # not visible in the configuration
        recipe["similarity"] = trial.control
    if trial.variant == "outcomes":
        recipe["outcomes"] = OUTCOMES_VERSION
    if trial.control in WHOLE_AGENTS:
        recipe["agent"] = "whole"
    if trial.source is not None:
        pairs = [list(pair) for pair in zip(trial.seeds, trial.source.seeds, strict=False)]
        recipe["source"] = [trial_id(trial.source), pairs]
    if trial.macros is not None and trial.control != "rainbow":
        recipe["macros"] = _macro_recipe(trial.macros)
    if trial.demonstrations is not None:
        recipe["demonstrations"] = dataclasses.astuple(trial.demonstrations)
    if trial.sweep is not None:
        candidates = [trial_id(candidate) for candidate in trial.candidates()]
        recipe["sweep"] = [candidates, list(trial.sweep.seeds), trial.sweep.judged]
    return recipe


def _macro_recipe(macros: MacroSet) -> dict[str, Any]:
    recipe: dict[str, Any] = {"noise": macros.noise}
    play = macros.play
    if play is not None:
        recipe["mining"] = [macros.k, macros.min_length, macros.max_length, macros.literal]
        recipe["play"] = [play.digest, play.stride]
        if play.solver is not None:
            recipe["play"] = ["solver", *dataclasses.astuple(play.solver)]
        if play.agent is not None:
            recipe["play"] = [trial_id(play.agent), play.agent.seeds[0], play.steps, play.epsilon]
            if play.successful < 1:
                recipe["successful"] = play.successful
    return recipe


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
    if values.get("demonstrations") is not None:
        values["demonstrations"] = Solver(**values["demonstrations"])
    if values["sweep"] is not None:
        values["sweep"] = Sweep(**{name: _tuple(value) for name, value in values["sweep"].items()})
    return Trial(**values)


def _macros_from_json(data: dict[str, Any]) -> MacroSet:
    values = dict(data)
    if values["play"] is not None:
        play = dict(values["play"])
        play["files"] = tuple(play["files"])
        play["agent"] = None if play["agent"] is None else from_json(play["agent"])
        play["solver"] = None if play.get("solver") is None else Solver(**play["solver"])
        values["play"] = Play(**play)
    return MacroSet(**values)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
