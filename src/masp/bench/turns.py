"""Timing in turns, so that other load on the machine affects all candidates alike."""

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


def in_turns(work: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, np.ndarray]:
    """[turns] seconds of each candidate; every turn runs all of them once, in alternating order."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns):
        for name in list(work)[:: 1 if turn % 2 == 0 else -1]:
            started = time.perf_counter()
            work[name]()
            seconds[name].append(time.perf_counter() - started)
    return {name: np.array(times) for name, times in seconds.items()}


def ratio(name: str, slow: np.ndarray, fast: np.ndarray) -> dict[str, Any]:
    """Median of the turns' ratios and the interval of their middle 80 %, as `*_ratio` and `*_ratio_interval`."""
    ratios = slow / fast
    return {
        f"{name}_ratio": float(np.median(ratios)),
        f"{name}_ratio_interval": [float(x) for x in np.quantile(ratios, [0.1, 0.9])],
    }


def in_own_process(measure: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """The result of `measure` in a fresh process, because XLA fixes its number of threads when it starts."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, *args).result()


class Training:
    """A training loop after compilation and warm-up; calling it runs one turn of `ticks` ticks."""

    def __init__(self, config: TrainConfig, ticks: int):
        import jax

        from masp.training.loop import make_loop

        tune_this_process(family_of(config.env).preset)
        self._wait: Callable[[Any], Any] = jax.block_until_ready
        config = config.resolved()
        self._ticks, self._turns = ticks, 0
        loop: Any = make_loop(config)
        self._loop = loop
        warm_up = config.agent.min_replay_steps // config.num_envs + 1
        state = loop.run(loop.init([config], [loop.agent.actions]), warm_up, False)
        update_ticks = -(-config.agent.steps_per_update // config.num_envs)
        self._state = self._wait(loop.run(state, 2 * update_ticks, True))
        self._start = self._counts()

    @property
    def steps(self) -> float:
        """Steps per turn, mean over the turns so far; ticks that reset an environment are not steps."""
        return (self._counts()[0] - self._start[0]) / self._turns

    @property
    def updates(self) -> float:
        """Updates per turn, mean over the turns so far."""
        return (self._counts()[1] - self._start[1]) / self._turns

    def __call__(self) -> None:
        self._state = self._wait(self._loop.run(self._state, self._ticks, True))
        self._turns += 1

    def _counts(self) -> tuple[int, int]:
        """Steps and updates since the beginning."""
        frames = int(self._loop.frames(self._state).sum())
        return frames // self._loop.agent.info.frames_per_step, int(self._state.agent.learner.updates)
