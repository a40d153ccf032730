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

from masp.errors import UserError

Variant = Literal["rainbow", "macros", "masp"]


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
    """Windows per update (paper: 32; MiniGrid 64)."""
    gamma: float = 0.99
    """Discount per step, not per decision (paper: 0.99)."""
    n_step: int = 3
    """Decisions per return (paper: 3; MiniGrid 1)."""
    num_atoms: int = 51
    """Atoms of the value distribution; 1 switches C51 off and learns scalar values (paper: 51)."""
    v_min: float = -10.0
    """Lowest value of the distribution (paper: -10)."""
    v_max: float = 10.0
    """Highest value of the distribution (paper: 10)."""
    double: bool = True
    """Double Q-learning: the online network chooses, the target network values."""
    dueling: bool = True
    """Dueling heads."""
    noisy: bool = True
    """Noisy layers instead of plain ones in the heads."""
    prioritised: bool = True
    """Prioritised replay; off: uniform."""
    priority_exponent: float = 0.5
    """How strongly priorities count (paper: 0.5)."""
    importance_start: float = 0.4
    """Importance-weight exponent at the start (paper: 0.4)."""
    importance_end: float = 1.0
    """Importance-weight exponent at the end of training (paper: 1.0)."""
    epsilon_start: float = 1.0
    """Chance of a random decision at the start (paper: 1.0)."""
    epsilon_end: float = 0.01
    """Chance of a random decision after the decay (paper: 0.01)."""
    epsilon_decay_steps: int = 1_000_000
    """Steps over which epsilon falls linearly (paper: 1 M)."""
    target_period_steps: int = 10_000
    """Steps between copies to the target network (paper: 10,000)."""
    replay_steps: int = 1_000_000
    """Steps that the replay holds, over all environments (paper: 1 M)."""
    min_replay_steps: int = 20_000
    """Steps played before learning starts (paper: silent; Rainbow: 20,000)."""
    steps_per_update: int = 4
    """Steps played per gradient update (paper: silent; Rainbow: 4)."""
    hidden: int = 512
    """Width of the hidden layers of the heads."""
    stack: int = 1
    """Observations stacked as one input (paper: 1)."""
    half_precision: bool = False
    """Products of the network in bfloat16, for accelerators; parameters stay float32 (slower on most CPUs)."""
    clip_rewards: bool = False
    """Learn from rewards clipped to [-1, 1]; reported returns are never clipped."""
    intra_option: bool = False
    """Steps inside macros also teach every action that would have played the same (paper: no)."""
    windows: Literal["decisions", "steps"] = "decisions"
    """What is learned from: decisions, n of them per return (paper), or every step; inside a macro each step then
    also counts as a decision for its primitive, and returns go n - 1 steps beyond the first action."""
    macros_for: Literal["acting", "exploring"] = "acting"
    """`acting`: macros are actions like all others (paper); `exploring`: only random decisions choose them, of which
    epsilon is then the share of steps; when acting, and in targets, the best action is the best primitive."""

    @property
    def target_period_updates(self) -> int:
        """Updates between copies to the target network."""
        return max(1, self.target_period_steps // self.steps_per_update)

    def __post_init__(self) -> None:
        _require(self, 0, None, "learning_rate", "adam_eps", "epsilon_decay_steps", open_below=True)
        _require(self, 0, None, "max_gradient_norm", "min_replay_steps")
        _require(self, 0, 1, "gamma", "priority_exponent", "importance_start", "importance_end")
        _require(self, 0, 1, "epsilon_start", "epsilon_end")
        _require(self, 1, None, "batch_size", "n_step", "num_atoms", "target_period_steps")
        _require(self, 1, None, "replay_steps", "steps_per_update", "hidden", "stack")
        _require_choices(self)
        if self.num_atoms > 1 and not -math.inf < self.v_min < self.v_max < math.inf:
            raise UserError(f"v_min must be below v_max, got {self.v_min} and {self.v_max}")


@dataclass(frozen=True)
class SimilarityConfig:
    """MASP: the penalty and how its similarity is learned."""

    penalty_weight: float = 0.3
    """Weight of the penalty (paper: swept over 0.1-1 on Atari); 0 switches it off."""
    full_weight_actions: int = 0
    """With more actions than this, the weight of the penalty and a constant or random start are divided by how many
    times more there are, so that the pull on each action stays; 0: never (paper)."""
    penalty_form: Literal["row", "literal"] = "row"
    """`row`: rows of the similarity sum to one; `literal`: the paper's equation (collapses, see docs/deviations.md)."""
    similarity_from: Literal["meta", "outcomes"] = "meta"
    """`meta`: one similarity for all states, learned by meta-gradient (paper); `outcomes`: in each state, actions are
    alike that are predicted to bring the same (needs n_step 1 or intra_option)."""
    similarity_start: Literal["constant", "overlap", "random", "identity"] = "constant"
    """Similarity before learning: the same for all pairs, common subsequences, random, or none."""
    similarity_start_value: float = 0.03
    """Size of the off-diagonal entries at the start, in [0, 1]."""
    learn_similarity: bool = True
    """Learn the similarity by meta-gradient; off: frozen as it starts or as the bundle brings it."""
    meta_learning_rate: float = 0.001
    """Step size of the similarity (paper: swept over 0.001-0.01)."""
    meta_optimiser: Literal["adam", "sgd"] = "adam"
    """Adam, because the meta-gradient carries the factor learning rate x weight and plain SGD does not move."""
    held_out: Literal["separate", "next"] = "next"
    """Data of the meta-objective: a second sample (Algorithm 1), or the next update's batch, which costs less and
    finds groups about as well (docs/performance.md)."""
    meta_period_updates: int = 8
    """Updates per meta-update; 1 costs most and needs the fewest frames (docs/performance.md)."""
    trace_length: int = 1
    """Inner steps that a meta-gradient reaches back."""
    trace_decay: float = 0.9
    """Weight of each further step of the trace."""
    entropy_weight: float = 0.0
    """Added slope of the row entropy, in units of a meta-step; positive resists the identity."""
    similarity_rank: int = 0
    """Factors that hold the similarity, which then grows linearly with the actions; 0: the whole matrix (paper)."""
    embedding: int = 32
    """Numbers in the embedding of the similarity that the network sees; 0: none (paper: 32, 16, 8)."""

    @property
    def active(self) -> bool:
        """Whether the penalty is part of the loss."""
        return self.penalty_weight > 0

    @property
    def learns(self) -> bool:
        """Whether meta-updates happen."""
        return self.active and self.learn_similarity and self.similarity_from == "meta"

    @property
    def from_outcomes(self) -> bool:
        """Whether the similarity is what outcomes say."""
        return self.active and self.similarity_from == "outcomes"

    def share(self, actions: int) -> float:
        """What is left of the weight and of the start, with so many actions."""
        return min(1.0, self.full_weight_actions / actions) if self.full_weight_actions else 1.0

    def start_value(self, actions: int) -> float:
        """Size of the off-diagonal entries at the start; an overlap is what it is, however many actions there are."""
        shared = self.similarity_start in ("constant", "random")
        return self.similarity_start_value * (self.share(actions) if shared else 1.0)

    def __post_init__(self) -> None:
        _require(self, 0, None, "full_weight_actions")
        _require(self, 0, None, "penalty_weight", "meta_learning_rate", "embedding", "similarity_rank")
        _require(self, 0, 1, "similarity_start_value", "trace_decay")
        _require(self, 1, None, "meta_period_updates", "trace_length")
        _require_choices(self)
        if self.similarity_from == "outcomes" and (self.similarity_rank or self.penalty_form != "row"):
            raise UserError(
                "similarity_from outcomes goes with penalty_form row and without similarity_rank; "
                "for those, add --similarity-from meta"
            )


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    env: str
    """Environment id: planted-bandit, planted-grid, a MiniGrid task, or any Gymnasium id."""
    variant: Variant = "masp"
    """`rainbow`: primitives only; `macros`: with macros, all unrelated; `masp`: with macros and the penalty."""
    env_options: tuple[str, ...] = ()
    """Options of the environment as name=value."""
    macros: str = ""
    """Macro file; empty: the environment's own set."""
    bundle: str = ""
    """Bundle of another run: its macros and its similarity, see `--no-learn-similarity`."""
    frames: int = 1_000_000
    """Emulator frames to train for."""
    seed: int = 0
    """Seed of everything random."""
    num_envs: int = 8
    """Environments played side by side."""
    out: str = ""
    """Run directory; empty: runs/ENV-VARIANT-SEED."""
    log_every_frames: int = 10_000
    """Frames per row of the metrics."""
    eval_every_frames: int = 50_000
    """Frames between evaluations; 0: only at the end."""
    eval_episodes: int = 32
    """Episodes per evaluation."""
    eval_epsilon: float = 0.0
    """Chance of a random decision in evaluation."""
    checkpoint_every_frames: int = 500_000
    """Frames between checkpoints; 0: only at the end."""
    mine_every_frames: int = 0
    """Frames between rounds in which macros mined from the agent's own good episodes replace those it decides on
    least; 0: the macros stay."""
    mine_replace_share: float = 0.25
    """Share of the macros that a round may replace."""
    mine_top_share: float = 0.25
    """Share of the agent's recent successful episodes (of all, where success has no meaning) that count as good: those
    with the highest scores, of equals the later."""
    mine_from: Literal["play", "random"] = "play"
    """`random`: replace by random sequences instead of mined ones, as a control."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)

    @property
    def ticks_per_iteration(self) -> int:
        """Ticks between bursts of updates: the fewest that keep `steps_per_update` exactly."""
        return math.lcm(self.num_envs, self.agent.steps_per_update) // self.num_envs

    @property
    def updates_per_iteration(self) -> int:
        """Updates per burst."""
        return math.lcm(self.num_envs, self.agent.steps_per_update) // self.agent.steps_per_update

    def __post_init__(self) -> None:
        _require(self, 1, None, "frames", "num_envs", "log_every_frames", "eval_episodes")
        _require(self, 0, None, "eval_every_frames", "checkpoint_every_frames", "mine_every_frames", "seed")
        _require(self, 0, 1, "mine_replace_share", "mine_top_share", open_below=True)
        _require(self, 0, 1, "eval_epsilon")
        _require_choices(self)
        if self.similarity.from_outcomes and self.agent.n_step > 1 and not self.agent.intra_option:
            raise UserError("similarity_from outcomes learns from single decisions: set n_step to 1, or intra_option")
        if self.mine_every_frames and self.variant != "rainbow" and self.agent.macros_for == "exploring":
            raise UserError(
                "mine_every_frames replaces the macros that are decided on least, but with macros_for exploring all "
                "are drawn alike; add --macros-for acting"
            )

    def resolved(self) -> TrainConfig:
        """What settings imply, made explicit: without `masp` there is no penalty and no embedding, without macros no
        credit inside them and nothing to decide about them, and a similarity that is brought along or frozen does not
        come from outcomes."""
        if self.similarity.similarity_from == "outcomes" and (self.bundle or not self.similarity.learn_similarity):
            return replace(self, similarity_from="meta").resolved()
        if self.variant == "masp":
            return self
        plain: dict[str, Any] = {}
        if self.variant == "rainbow":
            plain |= {"intra_option": False, "windows": "decisions", "macros_for": "acting"}
        plain |= {"learn_similarity": False, "embedding": 0, "similarity_rank": 0, "similarity_from": "meta"}
        return replace(self, penalty_weight=0.0, full_weight_actions=0, **plain)


def replace(config: TrainConfig, **changes: Any) -> TrainConfig:
    """`config` with some fields changed, each named without its section."""
    sections: dict[str, dict[str, Any]] = {"": {}, "agent": {}, "similarity": {}}
    known = field_sections()
    for name, value in changes.items():
        if name not in known:
            raise UserError(f"there is no setting {name!r}")
        sections[known[name]][name] = value
    top = sections.pop("")
    for section, values in sections.items():
        if values:
            top[section] = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **top)


def field_sections() -> dict[str, str]:
    """Section of every field, "" for the top level."""
    names = {f.name: "" for f in dataclasses.fields(TrainConfig) if f.name not in ("agent", "similarity")}
    for section, kind in (("agent", AgentConfig), ("similarity", SimilarityConfig)):
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
    kinds = field_types()
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            raise UserError(f"{where}: there is no setting {name!r}")
        changes[name] = _coerced(name, value, kinds[name], where)
    if "env" not in changes:
        raise UserError(f"{where}: 'env' is missing")
    return replace(TrainConfig(env=changes.pop("env")), **changes)


def field_types() -> dict[str, Any]:
    """Type of every field by name."""
    kinds: dict[str, Any] = {}
    for kind in (TrainConfig, AgentConfig, SimilarityConfig):
        kinds.update(typing.get_type_hints(kind))
    return {name: kinds[name] for name in field_sections()}


def _coerced(name: str, value: Any, kind: Any, where: str) -> Any:
    """`value` as `kind`, or a `UserError`."""
    origin = typing.get_origin(kind)
    if origin is Literal and value in typing.get_args(kind):
        return value
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(str(v) for v in value)
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if type(value) is kind:
            return value
    raise UserError(f"{where}: {name} cannot be {value!r}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Types of the fields; looked up once, because a plan makes thousands of configurations."""
    return typing.get_type_hints(kind)


def _require(config: Any, low: float | None, high: float | None, *names: str, open_below: bool = False) -> None:
    """Raise unless every named field lies in [low, high] (or (low, high])."""
    whole = _hints(config.__class__)
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UserError(f"{name} must be a number, got {value!r}")
        if whole[name] is int and value != int(value):
            raise UserError(f"{name} must be a whole number, got {value}")
        below = low is not None and (value <= low if open_below else value < low)
        if below or (high is not None and value > high):
            bounds = f"above {low}" if open_below else f"at least {low}"
            bounds += "" if high is None else f" and at most {high}"
            raise UserError(f"{name} must be {bounds}, got {value}")
        if whole[name] is int:
            object.__setattr__(config, name, int(value))  # 1e5 in Python is a float


def _require_choices(config: Any) -> None:
    """Raise unless every field that is one of a few words is one of them."""
    for name, kind in _hints(config.__class__).items():
        if typing.get_origin(kind) is Literal and getattr(config, name) not in typing.get_args(kind):
            raise UserError(f"{name} must be one of {', '.join(typing.get_args(kind))}, got {getattr(config, name)!r}")
