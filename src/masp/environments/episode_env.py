"""One Gymnasium environment, played episode by episode: what all kinds of vectors do with each of their environments.

It does not import JAX, so that a process that holds environments costs no more than they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.environments.base import SUCCESS_UNKNOWN
from masp.errors import UserError
from masp.json_text import shortened


class Outcome(NamedTuple):
    """The result of one step, or of a reset, without the observation."""

    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    life_lost: bool = False
    success: int = SUCCESS_UNKNOWN
    action_mask: np.ndarray | None = None
    """[P] bool"""


class EpisodeEnv:
    """One environment that writes its observations to `row`, an array of the vector.

    The saved state of an episode is the list of its actions, which are replayed to load it. An environment with
    `saves_state = True`, `get_state() -> bytes` and `set_state(bytes)` does that itself.
    """

    def __init__(self, env: gymnasium.Env, row: np.ndarray, index: int):
        """`index`: number of the environment in its vector, for messages."""
        self.env, self._row, self._index = env, row, index
        self._space, self._shape = env.observation_space, env.observation_space.shape
        self._fits = None if isinstance(self._space, spaces.Box) else _check(self._space)
        self._actions: list[int] = []
        self._has_masks: bool | None = None  # None: not yet known

    def reset(self, seed: int) -> Outcome:
        """Begin the episode of this seed."""
        self._actions = []
        observation, info = self._require_values("reset", self.env.reset(seed=seed), "observation, info")
        self._observe(observation)
        return Outcome(action_mask=self._mask(info, terminated=False))

    def step(self, action: int) -> Outcome:
        """Play one primitive action."""
        result = self._require_values("step", self.env.step(action), "observation, reward, terminated, truncated, info")
        observation, reward, terminated, truncated, info = result
        self._actions.append(action)
        self._observe(observation)
        terminated, truncated = self._truth("terminated", terminated), self._truth("truncated", truncated)
        lost, success = info.get("life_lost"), info.get("success")
        return Outcome(
            self._number("reward", reward),
            terminated,
            truncated and not terminated,  # a termination in the last allowed step is not a truncation
            lost is not None and self._truth("life_lost", lost),
            SUCCESS_UNKNOWN if success is None else int(self._truth("success", success)),
            self._mask(info, terminated),
        )

    def save(self, _: None = None) -> bytes:
        """The state of the episode."""
        return self.env.get_state() if self._saves_state else np.array(self._actions, np.int32).tobytes()  # type: ignore[attr-defined]

    def load(self, saved: tuple[int, bytes, np.ndarray]) -> bool:
        """Recover the state of an earlier `save`; False if the replay leads to another observation.

        Args:
          saved: seed of the episode, result of `save`, and the observation at that time.
        """
        seed, state, observation = saved
        self.reset(seed)
        if self._saves_state:
            self.env.set_state(state)  # type: ignore[attr-defined]
            self._row[...] = observation
            return True
        ended = False
        for action in np.frombuffer(state, np.int32).tolist():
            if ended:
                return False
            outcome = self.step(action)
            ended = outcome.terminated or outcome.truncated
        return np.array_equal(self._row, observation, equal_nan=True)

    def render(self, _: None = None) -> np.ndarray | None:
        """A picture; None if the render mode is not rgb_array."""
        picture = self.env.render() if self.env.render_mode == "rgb_array" else None
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        self.env.close()

    @property
    def _saves_state(self) -> bool:
        return bool(getattr(self.env, "saves_state", False))

    def _mask(self, info: dict[str, Any], terminated: bool) -> np.ndarray | None:
        """[P] bool, `info["action_mask"]`; None: the environment has no masks."""
        entry = info.get("action_mask")
        if self._has_masks is None:
            self._has_masks = entry is not None
        if not self._has_masks and entry is None:
            return None
        count = int(self.env.action_space.n)  # type: ignore[attr-defined]
        if entry is None and terminated:  # nothing is chosen any more
            return np.ones(count, bool)
        where = f"environment {self._index}, after step {len(self._actions)} of its episode"
        if entry is None or not self._has_masks:
            raise UserError(f'{where}: info["action_mask"] must be there in every step and reset, or never')
        mask = np.asarray(entry)
        if mask.shape != (count,) or mask.dtype.kind not in "biu":
            raise UserError(f"{where}: expected an action mask of {count} truth values, got {mask.dtype}{mask.shape}")
        if not (terminated or mask.any()):
            raise UserError(f"{where}: the action mask allows no action")
        return mask.astype(bool)

    def _observe(self, observation: Any) -> None:
        if self._fits is not None:
            if not self._fits(observation):
                raise self._other("observation", observation, f"one of {_one_line(self._space)}")
            flat = spaces.flatten(self._space, observation)
            self._row[...] = np.reshape(flat, self._row.shape)  # type: ignore[arg-type]
            return
        array = observation if isinstance(observation, np.ndarray) else self._array(observation)
        if array.shape != self._shape:  # assigning would broadcast it
            raise UserError(
                f"environment {self._index} returned an observation of {array.shape}, expected {self._shape}"
            )
        if array.dtype == self._row.dtype:
            self._row[...] = array.reshape(self._row.shape)
            return
        self._require_castable(array)
        with np.errstate(over="ignore"):  # infinite afterwards, which the agent finds
            self._row[...] = array.reshape(self._row.shape)

    def _array(self, observation: Any) -> np.ndarray:
        try:
            return np.asarray(observation)
        except ValueError:
            raise self._other("observation", observation, f"an array of {self._shape}") from None

    def _require_castable(self, array: np.ndarray) -> None:
        """Raise `UserError` where the type of the space cannot hold the numbers of an observation."""
        into, kind = self._row.dtype, array.dtype.kind
        if kind not in ("biuf" if into.kind == "f" else "biu"):
            raise UserError(f"environment {self._index} returned an observation of {array.dtype}, expected {into}")
        if into.kind != "f" and not np.array_equal(array, array.astype(into)):
            raise UserError(
                f"environment {self._index} returned an observation with values {array.min()}..{array.max()}, "
                f"which {into} cannot hold"
            )

    def _require_values(self, method: str, result: Any, names: str) -> Any:
        """`result`, or a `UserError` if it is not a tuple of these, of which the last is a dictionary."""
        number = len(names.split(", "))
        if not isinstance(result, tuple) or len(result) != number:
            returned = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            raise UserError(f"{method} of environment {self._index} returned {returned}, expected {number}: {names}")
        if not isinstance(result[-1], dict):
            raise self._other("info", result[-1], "a dictionary")
        return result

    def _number(self, name: str, value: Any) -> float:
        """A single number; infinite where it is too large."""
        if not isinstance(value, (float, int, np.floating, np.integer)) and not _is_single(value):
            raise self._other(name, value, "a number")
        try:
            return float(value)
        except OverflowError:
            return math.inf

    def _truth(self, name: str, value: Any) -> bool:
        """A single truth value, which texts are not, whatever they say."""
        if not isinstance(value, (bool, np.bool_)) and not (_is_single(value) and value in (0, 1)):
            raise self._other(name, value, "a truth value")
        return bool(value)

    def _other(self, name: str, value: Any, expected: str) -> UserError:
        return UserError(
            f"environment {self._index} returned {name} {_one_line(value)} ({type(value).__name__}), "
            f"expected {expected}"
        )


def _is_single(value: Any) -> bool:
    """Whether a value, of whatever library, is a number alone."""
    try:
        array = np.asarray(value)
    except ValueError:
        return False
    return array.shape == () and array.dtype.kind in "biuf"


def _check(space: spaces.Space) -> Callable[[Any], bool]:
    """Whether an observation has the parts and shapes of a space, and whole numbers in their ranges.

    Flattening would take other ones for some that fit.
    """
    if isinstance(space, spaces.Dict):
        parts = {name: _check(part) for name, part in space.items()}
        return lambda whole: (
            isinstance(whole, dict)
            and parts.keys() <= whole.keys()
            and all(fits(whole[name]) for name, fits in parts.items())
        )
    if isinstance(space, spaces.Tuple):
        checks = [_check(part) for part in space]
        return lambda whole: (
            isinstance(whole, (tuple, list))
            and len(whole) == len(checks)
            and all(fits(part) for fits, part in zip(checks, whole, strict=True))
        )
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return lambda part: space.contains(part) or space.contains(np.asarray(part))
    return lambda part: np.shape(part) == space.shape and np.asarray(part).dtype.kind in "biuf"


def _one_line(value: Any) -> str:
    return " ".join(shortened(value).split())
