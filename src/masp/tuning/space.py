"""What a search varies: settings with ranges or choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from masp.config import TrainConfig, field_types, to_flat
from masp.errors import UserError

LOG_RATIO = 10.0
"""Ranges whose ends differ by this factor or more are searched on a logarithmic scale."""
NOT_SEARCHED = ("env", "env_options", "seed", "out", "frames", "log_every_frames", "eval_every_frames", "eval_episodes")


@dataclass(frozen=True)
class Axis:
    """One setting of the search: either choices, or a range from low to high, both included."""

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        kind = field_types().get(self.name)
        if kind is None or self.name in NOT_SEARCHED:
            raise UserError(f"--vary {self.name}: there is no such setting to search over")
        if self.choices:
            return
        if kind not in (int, float):
            raise UserError(f"--vary {self.name}: only numbers have ranges; list the values as {self.name}=A,B")
        if not self.low < self.high:
            raise UserError(f"--vary {self.name}: the range {self.low:g}:{self.high:g} is empty")

    @property
    def is_integer(self) -> bool:
        return field_types()[self.name] is int

    @property
    def is_logarithmic(self) -> bool:
        return not self.choices and self.low > 0 and self.high / self.low >= LOG_RATIO

    def contains(self, value: Any) -> bool:
        return value in self.choices if self.choices else self.low <= value <= self.high

    def suggest(self, trial: Any) -> Any:
        """The value that an Optuna trial tries."""
        if self.choices:
            return trial.suggest_categorical(self.name, self.choices)
        if self.is_integer:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.is_logarithmic)
        return trial.suggest_float(self.name, self.low, self.high, log=self.is_logarithmic)


def parse_axis(text: str, read: Callable[[str, str], Any]) -> Axis:
    """The axis in NAME=LOW:HIGH or NAME=A,B; `read(name, text)` reads one value."""
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not values:
        raise UserError(f"--vary {text!r} should look like learning_rate=1e-4:1e-2 or n_step=1,3,5")
    if name not in field_types():
        raise UserError(f"--vary {name}: there is no such setting")
    low, colon, high = values.partition(":")
    if colon and field_types()[name] in (int, float):
        return Axis(name, low=read(name, low.strip()), high=read(name, high.strip()))
    return Axis(name, choices=tuple(read(name, value.strip()) for value in values.split(",")))


def default_axes(config: TrainConfig) -> list[Axis]:
    """What usually matters, around the settings of `config`."""
    agent, s = config.agent, config.similarity
    axes = [
        _around("learning_rate", agent.learning_rate, 8),
        _around("target_period_steps", agent.target_period_steps, 8),
    ]
    axes.append(_around("epsilon_decay_steps", agent.epsilon_decay_steps, 8))
    if config.variant != "outcomes" or agent.intra_option:
        axes.append(Axis("n_step", choices=tuple(sorted({1, 3, 5, agent.n_step}))))
    if config.penalised:
        axes.append(_around("penalty_weight", s.penalty_weight, 10))
    if config.penalised and config.variant == "masp" and not s.frozen:
        axes.append(_around("meta_learning_rate", s.meta_learning_rate, 10))
    return axes


def _around(name: str, value: float, factor: float) -> Axis:
    low = max(1, round(value / factor)) if field_types()[name] is int else value / factor
    return Axis(name, low=low, high=value * factor)


def values_of(config: TrainConfig, axes: Sequence[Axis]) -> dict[str, Any]:
    """The settings of `config` on those axes that contain them."""
    flat = to_flat(config)
    return {axis.name: flat[axis.name] for axis in axes if axis.contains(flat[axis.name])}
