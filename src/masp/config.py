"""Configuration: frozen dataclasses whose fields are also the flags of `masp train`.

Sections are nested, names are unique over all of them, so a flag or a preset can name a field without its section.
Values are checked where they are made.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from masp.errors import UserError, did_you_mean
from masp.json_text import is_number, is_text, shortened

Variant = Literal["rainbow", "macros", "masp", "outcomes"]
SEED_LIMIT = 2**30
"""Seeds of runs are below this, seeds of evaluations are not: no evaluation replays the layouts of a training run."""
MAX_NUMBER = 2**53
"""No setting is larger: whole numbers up to this one are exact as floats."""
Pair = tuple[float, float]


@dataclass(frozen=True)
class AgentConfig:
    """Rainbow. Every part can be switched off."""

    learning_rate: float = 6.25e-5
    """Adam's step size (paper: 6.25e-5)."""
    adam_eps: float = 1.5e-4
    """Adam's epsilon (paper: silent; Rainbow: 1.5e-4)."""
    max_gradient_norm: float = 10.0
    """Gradients are clipped to this global norm; 0 switches clipping off (paper: 10)."""
    batch_size: int = 32
    """Transitions per update (paper: 32; MiniGrid 64)."""
    gamma: float = 0.99
    """Discount per step, not per decision (paper: 0.99)."""
    n_step: int = 3
    """Decisions per return (paper: 3; MiniGrid 1)."""
    num_atoms: int = 51
    """Atoms of the value distribution; 1 switches C51 off and learns scalar values (paper: 51)."""
    value_range: Pair = (-10.0, 10.0)
    """Lowest and highest atom of the value distribution (paper: -10 and 10)."""
    double: bool = True
    """Double Q-learning: the online network selects the next action, the target network evaluates it."""
    dueling: bool = True
    """Dueling heads."""
    noisy: bool = True
    """Noisy layers instead of plain ones in the heads."""
    priority_exponent: float = 0.5
    """Exponent of the replay priorities (paper: 0.5); 0 samples uniformly."""
    importance: Pair = (0.4, 1.0)
    """Exponent of the importance weights at the start and at the end of training (paper: 0.4 and 1.0)."""
    epsilon: Pair = (1.0, 0.01)
    """Probability of a random decision at the start and after the decay (paper: 1.0 and 0.01)."""
    epsilon_decay_steps: int = 1_000_000
    """Steps over which epsilon decays linearly (paper: 1 M)."""
    target_period_steps: int = 10_000
    """Steps between copies to the target network (paper: 10,000)."""
    replay_steps: int = 1_000_000
    """Capacity of the replay in steps, over all environments (paper: 1 M)."""
    min_replay_steps: int = 20_000
    """Steps played before learning starts (paper: silent; Rainbow: 20,000)."""
    steps_per_update: int = 4
    """Steps played per gradient update (paper: silent; Rainbow: 4)."""
    hidden: int = 512
    """Width of the hidden layers of the heads."""
    stack: int = 1
    """Consecutive observations stacked as one input (paper: 1)."""
    clip_rewards: bool = False
    """Learn from rewards clipped to [-1, 1]; reported returns are never clipped."""
    intra_option: bool = False
    """Intra-option learning: steps inside macros also update actions that would have played the same (paper: no)."""
    torso: str = ""
    """Network from observations [B, ...] to features [B, F], as module:Class of a Flax module; its fields may follow as
    a JSON object. Empty: one that fits the kind of observation."""
    macros_for: Literal["acting", "exploring"] = "acting"
    """`acting`: macros are actions like all others (paper); `exploring`: only random decisions choose macros, greedy
    decisions and targets choose among primitives, and epsilon is the share of random *steps*."""

    @property
    def target_period_updates(self) -> int:
        """Updates between copies to the target network."""
        return max(1, self.target_period_steps // self.steps_per_update)

    def __post_init__(self) -> None:
        _require(self, 0, None, "learning_rate", "adam_eps", "epsilon_decay_steps", open_below=True)
        _require(self, 0, None, "max_gradient_norm", "min_replay_steps")
        _require(self, 0, 1, "gamma", "priority_exponent")
        _require(self, 1, None, "batch_size", "n_step", "num_atoms", "target_period_steps")
        _require(self, 1, None, "replay_steps", "steps_per_update", "hidden", "stack")
        _require_choices(self)
        _require_pair(self, -math.inf, math.inf, "value_range")
        _require_pair(self, 0, 1, "importance", "epsilon")
        if self.num_atoms > 1 and self.value_range[0] >= self.value_range[1]:
            low, high = self.value_range
            raise UserError(f"value_range must be a lower and a higher number, got {low:g} and {high:g}")


MATRIX_ACTIONS = 256
"""With `auto`, more actions than this have an embedded similarity: the matrix costs more and finds less there."""
STARTS = ("constant", "overlap", "random", "identity")
"""Similarities that a run can start with, besides one from a file."""


@dataclass(frozen=True)
class SimilarityConfig:
    """MASP: the penalty and how its similarity is learned."""

    penalty_weight: float = 0.1
    """Weight of the penalty (paper: swept over 0.1-1 on Atari, for `penalty_form` sum); 0 switches it off."""
    penalty_form: Literal["mean", "sum", "literal"] = "mean"
    """Squared distance of the values from their smoothed copy, as the mean over actions, so that one weight serves any
    number of macros, or as the sum (paper); rows of the similarity are normalised to sum to one. `literal`: the sum
    without normalised rows, the paper's equation as printed (collapses, see docs/deviations.md)."""
    similarity_start: str = "constant"
    """Similarity at the start: `constant` (all pairs equally, slightly similar), `overlap` (common subsequences),
    `random`, `identity` (none), or the file of a bundle."""
    meta_learning_rate: float = 0.001
    """Step size of the similarity (paper: swept over 0.001-0.01); 0 keeps the similarity as it starts."""
    meta_optimiser: Literal["adam", "sgd"] = "adam"
    """Adam, because the meta-gradient carries the factor learning rate x weight and plain SGD does not move."""
    held_out: Literal["separate", "next"] = "next"
    """Data of the meta-objective: a sample of its own (Algorithm 1), or the batch of the next update, whose gradient is
    computed anyway."""
    meta_period_updates: int = 8
    """Updates per meta-update; 1 costs most and needs the fewest frames (paper: 1). An embedded similarity has at least
    64."""
    trace_length: int = 1
    """Inner updates that a meta-gradient reaches back."""
    entropy_weight: float = 0.0
    """Weight of the row entropy in a meta-step; positive values resist the collapse to the identity."""
    similarity_form: Literal["auto", "matrix", "embedded"] = "auto"
    """`matrix`: one number per pair of actions, each learned by meta-gradient (paper); `embedded`: from predictions of
    what actions do, weighted by meta-gradient, at a cost that grows linearly with the actions; `auto`: the matrix up to
    256 actions, or where another setting needs it."""
    embedding: int = 32
    """Size of the embedding of the similarity that the network sees; 0: none (paper: 32, 16, 8)."""

    @property
    def frozen(self) -> bool:
        """Whether the similarity stays as it starts."""
        return self.meta_learning_rate == 0

    @property
    def bundle(self) -> str:
        """The file that the similarity starts from; empty where it is made."""
        return "" if self.similarity_start in STARTS else self.similarity_start

    @property
    def needs_matrix(self) -> str:
        """The setting that an embedded similarity cannot have; empty: none."""
        unlike = {
            "meta_learning_rate 0": self.frozen,
            f"similarity_start {self.similarity_start}": self.similarity_start != "constant",
            "penalty_form literal": self.penalty_form == "literal",
            f"trace_length {self.trace_length}": self.trace_length > 1,
            "entropy_weight": self.entropy_weight > 0,
        }
        return next((name for name, applies in unlike.items() if applies), "")

    def __post_init__(self) -> None:
        _require(self, 0, None, "penalty_weight", "meta_learning_rate", "embedding")
        _require(self, 1, None, "meta_period_updates", "trace_length")
        _require_choices(self)
        if not self.similarity_start:
            raise UserError(f"similarity_start must be one of {', '.join(STARTS)}, or the file of a bundle")
        if self.similarity_form == "embedded" and self.needs_matrix:
            raise UserError(f"similarity_form embedded does not go with {self.needs_matrix}: use matrix or auto")


@dataclass(frozen=True)
class DemonstrationConfig:
    """Demonstrations: recorded play that is learned from, beside the agent's own."""

    demonstrations: str = ""
    """Recorded play to learn from: a file of `masp record`, or a Minari data set. Empty: none."""
    demonstration_updates: int = 1000
    """Updates on demonstrations alone, before the first step."""
    demonstration_n_step: int = 10
    """Decisions per return of a demonstrated transition."""
    margin_weight: float = 10.0
    """Weight of the large-margin loss on demonstrated actions (Hester et al. 2018); 0 switches it off."""
    margin: float = 0.05
    """By how much the value of a demonstrated action should exceed those of the others, in units of returns."""

    def __post_init__(self) -> None:
        _require(self, 0, None, "demonstration_updates", "margin_weight", "margin")
        _require(self, 1, None, "demonstration_n_step")


@dataclass(frozen=True)
class TrainConfig:
    """One training run.

    A `TrainConfig` is complete: a field that is not given has the default of this class, and no preset is applied.
    `masp.make_config(env, **settings)` starts from the preset that fits the environment, as `masp.train(env)` does.

    Examples:
      >>> TrainConfig(env="CartPole-v1", agent=AgentConfig(gamma=0.9)).agent.batch_size
      32
    """

    env: str
    """Environment id: planted-grid, a MiniGrid task, or any Gymnasium id."""
    variant: Variant = "masp"
    """`rainbow`: primitives only; `macros`: with macros, all unrelated; `masp`: with macros and the penalty, its
    similarity meta-learned (the paper); `outcomes`: the same with a similarity per state, from predicted effects."""
    env_options: tuple[str, ...] = ()
    """Options of the environment as name=value."""
    macros: str = ""
    """Macro file, or a bundle whose macros to use; empty: the environment's own set."""
    init_from: str = ""
    """Run whose agent to start with: its parameters, macros and similarity, where their shapes fit; empty: none."""
    frames: int = 1_000_000
    """Emulator frames to train for."""
    seed: int = 0
    """Seed of everything random."""
    num_envs: int = 8
    """Environments played side by side."""
    env_workers: int = 0
    """Processes that play them, for Gymnasium environments that take long for a step; results stay the same. 0: they
    are stepped in turn in the training process, which is faster where steps are quick."""
    env_timeout: float = 0.0
    """Seconds that environments in processes (--env-workers) may take for a step or a reset; 0: any time."""
    env_restarts: int = 0
    """Processes of environments that take longer, or die, and are started anew, their episodes played again up to the
    same step; with the next one, the run stops. 0: it stops at the first."""
    out: str = ""
    """Run directory; empty: runs/ENV-VARIANT-SEED."""
    log_every_frames: int = 10_000
    """Frames per row of the metrics."""
    eval_every_frames: int = 50_000
    """Frames between evaluations; 0: only at the end."""
    eval_episodes: int = 32
    """Episodes per evaluation."""
    eval_epsilon: float = 0.0
    """Probability of a random decision in evaluation."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)
    demonstration: DemonstrationConfig = field(default_factory=DemonstrationConfig)

    @property
    def penalised(self) -> bool:
        """Whether the similarity penalty is part of the loss."""
        return self.variant in ("masp", "outcomes") and self.similarity.penalty_weight > 0

    def embeds(self, num_actions: int) -> bool:
        """Whether so many actions have an embedded similarity."""
        s = self.similarity
        if self.variant != "masp" or not self.penalised or self.init_from or s.needs_matrix or num_actions < 2:
            return False
        return s.similarity_form == "embedded" or (s.similarity_form == "auto" and num_actions > MATRIX_ACTIONS)

    def __post_init__(self) -> None:
        _require(self, 1, None, "frames", "num_envs", "log_every_frames", "eval_episodes")
        _require(self, 0, None, "eval_every_frames", "env_workers", "env_timeout", "env_restarts")
        _require(self, 0, SEED_LIMIT - 1, "seed")
        _require(self, 0, 1, "eval_epsilon")
        _require_choices(self)
        if self.env_workers > self.num_envs:
            raise UserError(f"env_workers must be at most num_envs, {self.num_envs}, got {self.env_workers}")
        if self.variant == "outcomes":
            self._require_outcomes_possible()

    def _require_outcomes_possible(self) -> None:
        if self.agent.n_step > 1 and not self.agent.intra_option:
            raise UserError("variant outcomes learns from single decisions: add --n-step 1 or --intra-option")
        if self.similarity.penalty_form == "literal" or self.similarity.similarity_form == "embedded":
            raise UserError(
                "penalty_form literal and similarity_form embedded belong to a meta-learned similarity: --variant masp"
            )
        if self.demonstration.demonstrations and (self.agent.n_step, self.demonstration.demonstration_n_step) != (1, 1):
            raise UserError(
                "variant outcomes learns from single decisions: with demonstrations, add --n-step 1 and "
                "--demonstration-n-step 1"
            )
        if self.similarity.bundle:
            raise UserError("variant outcomes predicts its similarity and takes none from a bundle: use --variant masp")

    def resolved(self) -> TrainConfig:
        """What the variant implies, made explicit: without a penalty the network sees no similarity, and without
        macros there is nothing to learn inside them and nothing to decide about them."""
        plain: dict[str, Any] = {}
        if self.variant == "rainbow":
            plain |= {"intra_option": False, "macros_for": "acting", "macros": ""}
        if self.variant in ("rainbow", "macros"):
            plain |= {"embedding": 0, "similarity_form": "auto", "penalty_weight": 0.0}
            plain |= {"similarity_start": "identity", "meta_learning_rate": 0.0}
        return replace(self, **plain)


SECTIONS: dict[str, type] = {
    "agent": AgentConfig,
    "similarity": SimilarityConfig,
    "demonstration": DemonstrationConfig,
}
"""Nested parts of a `TrainConfig`."""
CONSTANT = {"demonstration_share": 0.25, "similarity_rank": 0}
"""Settings of version 0.2 that are constants now; files of that version name them."""


def replace(config: TrainConfig, **changes: Any) -> TrainConfig:
    """`config` with some fields changed, each named without its section."""
    sections: dict[str, dict[str, Any]] = {"": {}, **{section: {} for section in SECTIONS}}
    section_of = field_sections()
    for name, value in changes.items():
        if name not in section_of:
            raise UserError(unknown_setting(name))
        sections[section_of[name]][name] = value
    top = sections.pop("")
    for section, values in sections.items():
        if values:
            top[section] = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **top)


def field_sections() -> dict[str, str]:
    """Section of every field, "" for the top level."""
    names = {f.name: "" for f in dataclasses.fields(TrainConfig) if f.name not in SECTIONS}
    for section, kind in SECTIONS.items():
        names.update({f.name: section for f in dataclasses.fields(kind)})
    return names


def to_flat(config: TrainConfig) -> dict[str, Any]:
    """All fields by name, as JSON values."""
    flat = {}
    for name, section in field_sections().items():
        value = getattr(getattr(config, section) if section else config, name)
        flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


def from_flat(values: dict[str, Any], where: str = "configuration") -> TrainConfig:
    """The inverse of `to_flat`; types are checked, since the values may come from a file."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: expected settings by name, got {shortened(values)}")
    for name, constant in CONSTANT.items():
        if values.get(name, constant) != constant:
            raise UserError(f"{where}: {name} is always {constant} now, got {shortened(values[name])}")
    changes = typed_settings({name: value for name, value in values.items() if name not in CONSTANT}, where)
    if "env" not in changes:
        raise UserError(f"{where}: 'env' is missing")
    try:
        return replace(TrainConfig(env=changes.pop("env")), **changes)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def typed_settings(values: dict[str, Any], where: str) -> dict[str, Any]:
    """JSON values of fields by name, as the types of the fields; raises `UserError` that names file and field."""
    kinds = field_types()
    for name in values:
        if name not in kinds:
            raise UserError(f"{where}: {unknown_setting(name)}")
    return {name: _coerced(name, value, kinds[name], where) for name, value in values.items()}


def unknown_setting(name: str) -> str:
    """The message for a name that no field has, with the most similar one."""
    hint = did_you_mean(name.replace("-", "_"), field_sections(), "`masp train --help` lists all")
    return f"there is no setting {shortened(name)}; {hint}"


def field_types() -> dict[str, Any]:
    """Type of every field by name."""
    kinds: dict[str, Any] = {}
    for kind in (TrainConfig, *SECTIONS.values()):
        kinds.update(typing.get_type_hints(kind))
    return {name: kinds[name] for name in field_sections()}


def _coerced(name: str, value: Any, kind: Any, where: str) -> Any:
    """`value` as `kind`, or a `UserError`."""
    origin = typing.get_origin(kind)
    if origin is Literal and value in typing.get_args(kind):
        return value
    if kind == Pair and isinstance(value, (list, tuple)) and len(value) == 2:
        return tuple(_coerced(name, number, float, where) for number in value)
    if origin is tuple and kind != Pair and isinstance(value, (list, tuple)) and all(map(is_text, value)):
        return tuple(value)
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind is float and is_number(value):
            return float(value)
        if type(value) is kind and (kind is not str or is_text(value)):
            return value
    raise UserError(f"{where}: {name} cannot be {shortened(value)}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Types of the fields; looked up once, because a plan makes thousands of configurations."""
    return typing.get_type_hints(kind)


def _require(config: Any, low: float | None, high: float | None, *names: str, open_below: bool = False) -> None:
    """Raise unless every named field lies in [low, high] (or (low, high])."""
    whole = _hints(config.__class__)
    for name in names:
        value = getattr(config, name)
        if not is_number(value):
            raise UserError(f"{name} must be a number, got {shortened(value)}")
        if abs(value) > MAX_NUMBER:
            raise UserError(f"{name} must be at most {MAX_NUMBER:,}, got {shortened(value)}")
        if whole[name] is int and value != int(value):
            raise UserError(f"{name} must be a whole number, got {value}")
        below = low is not None and (value <= low if open_below else value < low)
        if below or (high is not None and value > high):
            bounds = f"above {low}" if open_below else f"at least {low}"
            bounds += "" if high is None else f" and at most {high}"
            raise UserError(f"{name} must be {bounds}, got {value}")
        if whole[name] is int:
            object.__setattr__(config, name, int(value))  # 1e5 in Python is a float


def _require_pair(config: Any, low: float, high: float, *names: str) -> None:
    """Raise unless every named field is two finite numbers in [low, high]."""
    for name in names:
        value = getattr(config, name)
        numbers = isinstance(value, (tuple, list)) and len(value) == 2
        if not numbers or not all(is_number(v) and abs(v) <= MAX_NUMBER for v in value):
            raise UserError(f"{name} must be two numbers, got {shortened(value)}")
        if not all(low <= v <= high for v in value):
            raise UserError(f"{name} must be two numbers between {low} and {high}, got {value[0]} and {value[1]}")
        object.__setattr__(config, name, (float(value[0]), float(value[1])))


def _require_choices(config: Any) -> None:
    """Raise unless every field that is one of a few words is one of them."""
    for name, kind in _hints(config.__class__).items():
        if typing.get_origin(kind) is Literal and getattr(config, name) not in typing.get_args(kind):
            raise UserError(f"{name} must be one of {', '.join(typing.get_args(kind))}, got {getattr(config, name)!r}")
