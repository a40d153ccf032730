"""The boundary to environments, other people's code: what they return is checked, what they raise is named."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from masp.environments.base import EnvInfo, HostEnv, Step, first_mask
from masp.errors import LineWarning, TrainingError, UserCodeError, UserError
from masp.importing import one_line


class CheckedEnv:
    """A `HostEnv` whose mistakes become a `TrainingError` with the environment's id, the tick and the cause."""

    def __init__(self, env: HostEnv, purpose: str):
        """`purpose`: training or evaluation, for messages."""
        self._env, self._purpose, self._tick = env, purpose, 0
        info = env.info
        self._shape = (env.num_envs, *info.observation_shape)
        self._dtype = np.dtype(info.observation_dtype)

    @property
    def info(self) -> EnvInfo:
        return self._env.info

    @property
    def num_envs(self) -> int:
        return self._env.num_envs

    @property
    def action_mask(self) -> np.ndarray | None:
        """[N, P] the action masks of the first observations, after `reset`; None: the environment has none."""
        return first_mask(self._env)

    def reset(self, seed: int) -> np.ndarray:
        """[N, ...] first observations of new episodes."""
        self._tick = 0
        with self._named("reset"):
            observation = self._env.reset(seed)
        self._require_observation(observation)
        bad = _first_nonfinite(observation)
        if bad is not None:
            raise TrainingError(f"{self._where('reset')}: the first observation of environment {bad} is not finite")
        return observation

    def step(self, actions: np.ndarray) -> Step:
        """One tick. Whether numbers are finite is checked by the agent, which is cheaper."""
        self._tick += 1
        with self._named("step"):
            step = self._env.step(actions)
        self._require_observation(step.observation)
        for name in ("reward", "terminated", "truncated", "life_lost"):
            values = np.asarray(getattr(step, name))
            if values.shape != self._shape[:1] or values.dtype.kind not in ("biuf" if name == "reward" else "biu"):
                raise TrainingError(
                    f"{self._where('step')}: {name} is {values.dtype}{values.shape}, expected one per environment, "
                    f"{self._shape[0]}"
                )
        return step

    def snapshot(self) -> Any:
        return self._env.snapshot()

    def restore(self, seed: int, snapshot: Any) -> None:
        with self._named("restore"):
            self._env.restore(seed, snapshot)

    def close(self) -> None:
        """End the environment; what it raises then is told, but no reason for a run to fail."""
        try:
            self._env.close()
        except Exception as error:
            text = f"{self._where('close')}: the environment raised {one_line(error)}"
            warnings.warn(text, LineWarning, stacklevel=2)

    def _where(self, moment: str) -> str:
        tick = f", tick {self._tick} of this process" if moment == "step" else ""
        return f"{self._env.info.env_id} ({self._purpose}, {moment}{tick})"

    @contextmanager
    def _named(self, moment: str) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            raise TrainingError(f"{self._where(moment)}: {error}") from error.__cause__
        except (Exception, SystemExit, GeneratorExit) as error:  # nobody but masp ends the run
            text = str(error).partition("\n")[0]
            raise UserCodeError(
                f"{self._where(moment)}: the environment raised {type(error).__name__}{text and ': ' + text}; "
                "checkpoints stay, --resume goes on from the last"
            ) from error

    def _require_observation(self, observation: Any) -> None:
        shape, dtype = np.shape(observation), getattr(observation, "dtype", None)
        if shape != self._shape or dtype != self._dtype:
            raise TrainingError(
                f"{self._where('step' if self._tick else 'reset')}: observations are {dtype}{shape}, expected "
                f"{self._dtype}{self._shape}"
            )


def _first_nonfinite(observation: np.ndarray) -> int | None:
    """The first environment whose observation is not finite."""
    if not np.issubdtype(observation.dtype, np.floating) or np.isfinite(observation).all():
        return None
    finite = np.isfinite(observation).reshape(len(observation), -1).all(axis=1)
    return int(np.argmin(finite))
