"""One Gymnasium environment, played episode by episode: what all kinds of vectors do with each of their environments.

It does not import JAX, so that a process that holds environments costs no more than they do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.environments.base import SUCCESS_UNKNOWN
from masp.errors import UserError


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
        self._space = env.observation_space
        self._flattens = self._space.shape != row.shape
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
        # A termination in the last allowed step is not a truncation.
        ends = bool(terminated), bool(truncated and not terminated), bool(info.get("life_lost", False))
        success = int(bool(info["success"])) if info.get("success") is not None else SUCCESS_UNKNOWN
        return Outcome(float(reward), *ends, success, self._mask(info, terminated))

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
        if self._flattens:
            flat = spaces.flatten(self._space, observation)
            observation = np.reshape(flat, self._row.shape)  # type: ignore[arg-type]
        elif np.shape(observation) != self._row.shape:  # assigning would broadcast it
            raise UserError(
                f"environment {self._index} returned an observation of {np.shape(observation)}, "
                f"expected {self._row.shape}"
            )
        self._row[...] = observation

    def _require_values(self, method: str, result: Any, names: str) -> Any:
        """`result`, or a `UserError` if it is not a tuple of these."""
        number = len(names.split(", "))
        if not isinstance(result, tuple) or len(result) != number:
            returned = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            raise UserError(f"{method} of environment {self._index} returned {returned}, expected {number}: {names}")
        return result
