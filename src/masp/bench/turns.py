"""Things timed in turns, so that whatever else the machine does falls on all of them alike."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from masp.config import TrainConfig
from masp.environments.registry import family_of
from masp.ops import tune_this_process


def in_turns(work: Mapping[str, Callable[[], None]], turns: int) -> dict[str, np.ndarray]:
    """[turns] seconds of each piece of work; all are done once per turn, the order alternating."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns):
        for name in list(work)[:: 1 if turn % 2 == 0 else -1]:
            started = time.perf_counter()
            work[name]()
            seconds[name].append(time.perf_counter() - started)
    return {name: np.array(times) for name, times in seconds.items()}


def ratio(name: str, slow: np.ndarray, fast: np.ndarray) -> dict[str, Any]:
    """The median of the turns' ratios, and the interval of their middle 80 %, under keys that say so."""
    ratios = slow / fast
    return {
        f"{name}_ratio": float(np.median(ratios)),
        f"{name}_ratio_interval": [float(x) for x in np.quantile(ratios, [0.1, 0.9])],
    }


def in_own_process(measure: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What `measure` finds in a fresh process, as a run has one: XLA's threads are chosen when it starts."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, *args).result()


class Training:
    """A loop past its compilation and its first steps, ready to be timed."""

    def __init__(self, config: TrainConfig, iterations: int):
        import jax

        from masp.training.loop import make_loop

        tune_this_process(family_of(config.env).preset)
        self._wait: Callable[[Any], Any] = jax.block_until_ready
        self._config, self._iterations = config.resolved(), iterations
        self._loop = make_loop(self._config)
        warm_up = self._config.agent.min_replay_steps // self.steps_per_iteration + 1
        state = self._loop.run(self._loop.init([self._config]), warm_up, False)
        self._state = self._wait(self._loop.run(state, 2, True))

    @property
    def steps_per_iteration(self) -> int:
        return self._config.num_envs * self._config.ticks_per_iteration

    @property
    def steps(self) -> int:
        """Of one call."""
        return self._iterations * self.steps_per_iteration

    @property
    def updates(self) -> int:
        """Of one call."""
        return self._iterations * self._config.updates_per_iteration

    def __call__(self) -> None:
        self._state = self._wait(self._loop.run(self._state, self._iterations, True))
