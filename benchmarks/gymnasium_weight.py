"""Which penalty weight the preset `gymnasium` should have: two small tasks, several weights, mean over the run.

    python benchmarks/gymnasium_weight.py [--weights 0 0.03 0.1 0.3] [--seeds 300 301 302 303 304] [--out FOLDER]

The tasks are CartPole-v1 and Acrobot-v1 of Gymnasium, written in JAX, so that all runs of a task are one program.
Tasks whose runs are in `--out` are read from there. The plan and what came out is
docs/log/2026-11-19-gymnasium-weight.md.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import masp
from masp.environments.base import EnvInfo
from masp.macros.actions import default_macros
from masp.report.statistics import compare, difference_of

FRAMES = 40_000
PRESET_WEIGHT = 0.1
LIMIT = 500
"""Steps of an episode, in both tasks."""


class CartPole:
    """Gymnasium's CartPole-v1, in which both actions have `copies`."""

    low, high = 0.0, 500.0

    def __init__(self, copies: int = 16):
        self.info = _info("cartpole-copies", 4, 2 * copies)

    def reset(self, key: Array) -> tuple[Any, Array]:
        state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return (state, 0), state

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        (x, v, angle, w), steps = state[0], state[1] + 1
        force, sine, cosine = jnp.where(action % 2 == 1, 10.0, -10.0), jnp.sin(angle), jnp.cos(angle)
        push = (force + 0.05 * jnp.square(w) * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * jnp.square(cosine) / 1.1))
        slide = push - 0.05 * turn * cosine / 1.1
        new = jnp.stack([x + 0.02 * v, v + 0.02 * slide, angle + 0.02 * w, w + 0.02 * turn])
        fell = (jnp.abs(new[0]) > 2.4) | (jnp.abs(new[2]) > 12 * 2 * jnp.pi / 360)
        return (new, steps), new, jnp.float32(1), fell, (steps >= LIMIT) & ~fell


class Acrobot:
    """Gymnasium's Acrobot-v1."""

    low, high = -500.0, 0.0

    def __init__(self) -> None:
        self.info = _info("acrobot", 6, 3)

    def reset(self, key: Array) -> tuple[Any, Array]:
        state = jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)
        return (state, 0), self._observation(state)

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        s, steps, torque, dt = state[0], state[1] + 1, action.astype(jnp.float32) - 1, 0.2
        k1 = self._slope(s, torque)
        k2 = self._slope(s + dt / 2 * k1, torque)
        k3 = self._slope(s + dt / 2 * k2, torque)
        k4 = self._slope(s + dt * k3, torque)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles = (s[:2] + jnp.pi) % (2 * jnp.pi) - jnp.pi
        speeds = jnp.clip(s[2:], jnp.array([-4, -9]) * jnp.pi, jnp.array([4, 9]) * jnp.pi)
        s = jnp.concatenate([angles, speeds])
        up = -jnp.cos(s[0]) - jnp.cos(s[0] + s[1]) > 1
        return (s, steps), self._observation(s), jnp.where(up, 0.0, -1.0), up, (steps >= LIMIT) & ~up

    def _observation(self, s: Array) -> Array:
        return jnp.stack([jnp.cos(s[0]), jnp.sin(s[0]), jnp.cos(s[1]), jnp.sin(s[1]), s[2], s[3]])

    def _slope(self, s: Array, torque: Array) -> Array:
        """[4] derivative of angles and speeds; lengths, masses and inertias are 1, centres of mass in the middle."""
        angle1, angle2, w1, w2 = s
        d1 = 0.25 + 1 + 0.25 + jnp.cos(angle2) + 2
        d2 = 0.25 + 0.5 * jnp.cos(angle2) + 1
        phi2 = 0.5 * 9.8 * jnp.cos(angle1 + angle2 - jnp.pi / 2)
        phi1 = -0.5 * w2**2 * jnp.sin(angle2) - w2 * w1 * jnp.sin(angle2) + 1.5 * 9.8 * jnp.cos(angle1 - jnp.pi / 2)
        phi1 = phi1 + phi2
        a2 = (torque + d2 / d1 * phi1 - 0.5 * w1**2 * jnp.sin(angle2) - phi2) / (1.25 - d2**2 / d1)
        return jnp.stack([w1, w2, -(d2 * a2 + phi1) / d1, a2])


def _info(name: str, size: int, num_actions: int) -> EnvInfo:
    actions = default_macros(num_actions, (), name)
    return EnvInfo(name, (size,), np.dtype(np.float32), "vector", actions, max_episode_steps=LIMIT)


TASKS = {"cartpole-copies": CartPole, "acrobot": Acrobot}


def scores_of(task: str, weights: list[float], seeds: list[int], folder: Path) -> dict[float, np.ndarray]:
    """[seeds] by weight: the mean over all evaluations of a run, of the return in units of the task's range."""
    make, out = TASKS[task], folder / task
    if not out.exists():
        settings = {"variant": "masp", "frames": FRAMES, "preset": "gymnasium"}
        masp.sweep(make, {"penalty_weight": weights}, seeds, out, callbacks=[Progress()], **settings)
    return {w: np.array([_score(make, out / f"penalty_weight={w}" / f"seed-{s}") for s in seeds]) for w in weights}


def _score(task: Any, path: Path) -> float:
    returns = [row["eval_return"] for row in masp.load_run(path).metrics if row.get("eval_return") is not None]
    return (float(np.mean(returns)) - task.low) / (task.high - task.low)


class Progress(masp.Callback):
    def on_progress(self, frames: int, doing: str) -> None:
        print(f"{frames:,} frames, {doing}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", nargs="+", type=float, default=[0.0, 0.03, 0.1, 0.3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[300, 301, 302, 303, 304])
    parser.add_argument("--out", default="runs/gymnasium-weight", type=Path)
    args = parser.parse_args()
    tasks = {task: scores_of(task, args.weights, args.seeds, args.out) for task in TASKS}
    for weight in args.weights:
        line = ", ".join(f"{task} {np.round(scores[weight], 3).tolist()}" for task, scores in tasks.items())
        of_weight = partial(_per_task, tasks)
        if weight != PRESET_WEIGHT and PRESET_WEIGHT in args.weights:
            value, low, high = compare(of_weight(weight), of_weight(PRESET_WEIGHT), difference_of)
            line += f"; minus weight {PRESET_WEIGHT:g}: {value:+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"weight {weight:g}: {line}")


def _per_task(tasks: dict[str, dict[float, np.ndarray]], weight: float) -> list[np.ndarray]:
    return [scores[weight] for scores in tasks.values()]


if __name__ == "__main__":
    main()
