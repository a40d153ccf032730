"""From which cost of a step on processes pay off: serial environments over `--env-workers N`, for several costs.

    python benchmarks/env_workers.py --turns 9

Eight environments do a fixed amount of computing per step, calibrated to 0.1 to 20 ms of one undisturbed core; they
are stepped one after another, and in processes, in turns in one run. Prints JSON, anew after each cost.
`workers_N_ratio` is the time of the former over that with N processes, above 1 where processes are faster; `waiting` is
the same for steps that wait instead of computing, as for a simulator behind a socket, which need no cores.
`workers_N_messages_ms` is the processor time that this process spends per tick, on messages and on putting the answers
together.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from masp.bench.turns import in_turns, ratio
from masp.environments.processes import make_vector

NUM_ENVS = 8
COSTS_MS = (0.1, 1.0, 5.0, 20.0)
SECONDS_PER_TURN = 0.2
"""Of serial steps; at least two ticks."""


class Costly(gymnasium.Env):
    """A step computes a fixed number of rounds, or waits; episodes never end."""

    observation_space = gymnasium.spaces.Box(-1, 1, (16,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, rounds: int, wait: float):
        self._rounds, self._wait = rounds, wait

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(16, np.float32), {}

    def step(self, action: Any) -> Any:
        compute(self._rounds)
        if self._wait:
            time.sleep(self._wait)
        return np.zeros(16, np.float32), 0.0, False, False, {}


def compute(rounds: int) -> int:
    """Something that takes time in proportion to `rounds` and runs on one core."""
    value = 1
    for _ in range(rounds):
        value = value * 1103515245 + 12345 & 0x7FFFFFFF
    return value


def rounds_per_ms() -> float:
    """Rounds of `compute` in a millisecond of processor time, the most of several tries."""
    rates = []
    for _ in range(9):
        started = time.process_time()
        compute(100_000)
        rates.append(100_000 / (1000 * max(time.process_time() - started, 1e-6)))
    return max(rates)


def measure(make: Any, workers: tuple[int, ...], ticks: int, turns: int) -> dict[str, Any]:
    """Time of `ticks` ticks in turn, over that in processes."""
    vectors = {number: make_vector(make, NUM_ENVS, number) for number in (0, *workers)}
    spent: dict[int, list[float]] = {number: [] for number in vectors}
    actions = np.zeros(NUM_ENVS, np.int64)

    def play(number: int) -> None:
        started = time.process_time()
        for _ in range(ticks):
            vectors[number].step(actions)
        spent[number].append(1000 * (time.process_time() - started) / ticks)

    try:
        for vector in vectors.values():
            vector.reset(0)
            vector.step(actions)
        seconds = in_turns({str(number): partial(play, number) for number in vectors}, turns)
    finally:
        for vector in vectors.values():
            vector.close()
    figures: dict[str, Any] = {"serial_ms_per_tick": 1000 * float(np.median(seconds["0"])) / ticks}
    for number in workers:
        figures |= ratio(f"workers_{number}", seconds["0"], seconds[str(number)])
        figures[f"workers_{number}_messages_ms"] = float(np.median(spent[number]))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    args = parser.parse_args()
    rate, workers = rounds_per_ms(), tuple(args.workers)
    figures: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None}
    figures |= {"load": os.getloadavg()[0], "environments": NUM_ENVS, "turns": args.turns}
    for cost in COSTS_MS:
        ticks = max(2, int(1000 * SECONDS_PER_TURN / (NUM_ENVS * cost)))
        computing = measure(partial(Costly, int(rate * cost), 0.0), workers, ticks, args.turns)
        waiting = measure(partial(Costly, 0, cost / 1000), workers, ticks, args.turns)
        figures[f"step of {cost:g} ms"] = {"computing": computing, "waiting": waiting}
        print(json.dumps(figures | {"load_at_end": os.getloadavg()[0]}, indent=1), flush=True)


if __name__ == "__main__":
    main()
