"""How much faster envpool plays MiniGrid than the `minigrid` package, in turns of one run.

    python benchmarks/minigrid_backends.py

Both are stepped through the interface that training uses, with the same random actions. Each ratio is that of one turn;
the interval spans the middle 80 % of them.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from masp.environments import is_jax, make_env
from masp.environments.base import HostEnv

TASKS = ("DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1")


def steps_per_second(env: HostEnv, ticks: int) -> float:
    """Environment steps in a second of random play."""
    actions = np.random.default_rng(0).integers(env.info.actions.num_primitives, size=(ticks, env.num_envs))
    start = time.perf_counter()
    for row in actions:
        env.step(row)
    return actions.size / (time.perf_counter() - start)


def compare(task: str, num_envs: int, turns: int, ticks: int) -> dict[str, object]:
    """Medians of both, and the ratio with its interval."""
    envs = {}
    for backend in ("minigrid", "envpool"):
        env = make_env(task, [f"backend={backend}"], num_envs)
        assert not is_jax(env)
        env.reset(0)
        envs[backend] = env
    speeds = np.array([[steps_per_second(env, ticks) for env in envs.values()] for _ in range(turns)])
    ratios = speeds[:, 1] / speeds[:, 0]
    return {
        "minigrid_steps_per_second": round(float(np.median(speeds[:, 0]))),
        "envpool_steps_per_second": round(float(np.median(speeds[:, 1]))),
        "envpool_over_minigrid_ratio": float(np.median(ratios)),
        "envpool_over_minigrid_ratio_interval": np.quantile(ratios, [0.1, 0.9]).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--ticks", type=int, default=50, help="ticks of every environment in a turn")
    args = parser.parse_args()
    print(json.dumps({task: compare(task, args.num_envs, args.turns, args.ticks) for task in TASKS}, indent=1))


if __name__ == "__main__":
    main()
