"""The process of one environment of a `ProcessVector`, which executes the commands of a pipe.

It does not import JAX, so that it costs no more than its environment. It exits when the pipe closes, which also
happens when the parent is killed.
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


class Outcome(NamedTuple):
    """The result of one step without the observation."""

    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool


class EnvServer:
    """One environment that writes its observations to `row`, an array in memory shared with the parent.

    If the environment has `get_state() -> bytes` and `set_state(bytes)`, these save and load it. Otherwise its saved
    state is the list of actions since the reset, and loading replays them.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], row: np.ndarray):
        self._make, self._row = make, row
        self._env: Any = None
        self._actions: list[int] = []

    def reset(self, seed: int) -> None:
        if self._env is None:  # here, so that an error of the constructor becomes an answer
            self._env = self._make()
        self._actions = []
        self._observe(self._env.reset(seed=seed)[0])

    def step(self, action: int) -> Outcome:
        observation, reward, terminated, truncated, info = self._env.step(action)
        self._actions.append(action)
        self._observe(observation)
        # A termination in the last allowed step is not a truncation.
        truncated = bool(truncated and not terminated)
        return Outcome(float(reward), bool(terminated), truncated, bool(info.get("life_lost", False)))

    def save(self, _: None) -> bytes:
        return self._env.get_state() if self._has_state else np.array(self._actions, np.int32).tobytes()

    def load(self, saved: tuple[int, bytes, np.ndarray]) -> bool:
        """Recover the state of an earlier `save`; False if the replay leads to another observation.

        Args:
          saved: seed of the episode, result of `save`, and the observation at that time.
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
            outcome = self.step(action)
            ended = outcome.terminated or outcome.truncated
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
    """Execute commands (name, argument) until the pipe is closed.

    Args:
      memory: bytes of the observations of all environments, shared with the parent.
      index: index of this environment.
      row: an array with the shape and dtype of one observation.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it
    rows = np.frombuffer(memory, row.dtype).reshape(-1, *row.shape)
    server = EnvServer(make, rows[index])
    while True:
        try:
            name, argument = pipe.recv()
            pipe.send(_answer(server, name, argument))
        except (EOFError, OSError):
            break
    server.close()


def _answer(server: EnvServer, name: str, argument: Any) -> tuple[str, Any]:
    """`done` with the result, `mistake` with the message of a `UserError`, or `failure` with a traceback."""
    try:
        return "done", getattr(server, name)(argument)
    except UserError as error:
        return "mistake", str(error)
    except Exception:
        return "failure", traceback.format_exc()
