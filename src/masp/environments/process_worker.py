"""The other side of `ProcessVector`: a process that holds one environment and does what the pipe says.

It imports no JAX, so that a process costs as little as its environment. It ends when the pipe does, however that came
about: a parent that was killed closes its pipes too.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.errors import UserError


class Played(NamedTuple):
    """What one step brought, apart from the observation."""

    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool


class Served:
    """One environment whose observations go to `row`, an array that the parent sees too.

    An environment with `get_state() -> bytes` and `set_state(bytes)` is saved by these. Any other is saved as its
    actions since the reset, and restored by playing them again.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], row: np.ndarray):
        self._make, self._row = make, row
        self._env: Any = None
        self._actions: list[int] = []

    def reset(self, seed: int) -> None:
        if self._env is None:  # made by the first command, so that its errors are answers like any other
            self._env = self._make()
        self._actions = []
        self._observe(self._env.reset(seed=seed)[0])

    def step(self, action: int) -> Played:
        observation, reward, terminated, truncated, info = self._env.step(action)
        self._actions.append(action)
        self._observe(observation)
        # An episode that ends by itself in its last allowed step was not cut.
        cut = bool(truncated and not terminated)
        return Played(float(reward), bool(terminated), cut, bool(info.get("life_lost", False)))

    def save(self, _: None) -> bytes:
        return self._env.get_state() if self._has_state else np.array(self._actions, np.int32).tobytes()

    def load(self, saved: tuple[int, bytes, np.ndarray]) -> bool:
        """Go to where `save` was called in an episode; False if playing it again led somewhere else.

        Args:
          saved: the seed of the episode, what `save` returned, and the observation of that moment.
        """
        seed, state, observation = saved
        self.reset(seed)
        if self._has_state:
            self._env.set_state(state)
            self._row[:] = observation
            return True
        ended = False
        for action in np.frombuffer(state, np.int32).tolist():
            if ended:
                return False
            played = self.step(action)
            ended = played.terminated or played.truncated
        return np.array_equal(self._row, observation, equal_nan=True)

    def render(self, _: None) -> np.ndarray | None:
        picture = self._env.render() if self._env.render_mode == "rgb_array" else None
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        if self._env is not None:
            self._env.close()

    @property
    def _has_state(self) -> bool:
        return callable(getattr(self._env, "get_state", None))

    def _observe(self, observation: Any) -> None:
        if np.shape(observation) != self._row.shape:
            flat = spaces.flatten(self._env.observation_space, observation)
            observation = np.reshape(flat, self._row.shape)  # type: ignore[arg-type]
        self._row[:] = observation


def serve(pipe: Connection, make: Callable[[], gymnasium.Env], memory: Any, index: int, row: np.ndarray) -> None:
    """Answer commands (name, argument) until the pipe is closed.

    Args:
      memory: bytes of all observations, shared with the parent.
      index: which environment this is.
      row: an observation, for its shape and type.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    rows = np.frombuffer(memory, row.dtype).reshape(-1, *row.shape)
    served = Served(make, rows[index])
    while True:
        try:
            name, argument = pipe.recv()
            pipe.send(_answer(served, name, argument))
        except (EOFError, OSError):
            break
    served.close()


def _answer(served: Served, name: str, argument: Any) -> tuple[str, Any]:
    """`done` with a result, or what went wrong: `mistake` of the user, or `failure` with its traceback."""
    try:
        return "done", getattr(served, name)(argument)
    except UserError as error:
        return "mistake", str(error)
    except Exception:
        return "failure", traceback.format_exc()
