"""Fill the replay with a million Atari frames, sample from all of it, and say how much memory that took.

    python benchmarks/replay_memory.py

Every frame holds a number that follows from its place, so that what is sampled can be checked at full size.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from masp.agent import replay
from masp.agent.nstep import Windows
from masp.agent.replay import ReplayState

SHAPE, STACK, NUM_ENVS, BATCH = (84, 84, 1), 4, 8, 32


def mark(tick: jax.Array, env: jax.Array) -> jax.Array:
    """A byte that tells rows apart: neighbours differ, and so do rows a ring apart."""
    return ((tick * 31 + env * 7 + tick // 251) % 256).astype(jnp.uint8)


@partial(jax.jit, static_argnums=2, donate_argnums=0)
def fill(state: ReplayState, first: jax.Array, ticks: int) -> ReplayState:
    """Write `ticks` rows; every row is also a window of one step that begins in the row before it."""
    envs = jnp.arange(NUM_ENVS)

    def one(i: jax.Array, state: ReplayState) -> ReplayState:
        tick = first + i
        frames = jnp.broadcast_to(mark(tick, envs)[:, None], (NUM_ENVS, 84 * 84)).reshape(NUM_ENVS, *SHAPE)
        state = replay.write_row(state, tick, frames, jnp.full(NUM_ENVS, 255))
        column = jnp.ones((NUM_ENVS, 1))
        windows = Windows(
            closed=(tick > first) | (first > 0) & (column > 0),
            start=jnp.full((NUM_ENVS, 1), tick - 1),
            action=(mark(tick - 1, envs)[:, None]).astype(jnp.int32),
            reward=column,
            discount=0.9 * column,
        )
        return replay.write_windows(state, tick, windows, STACK)

    return jax.lax.fori_loop(0, ticks, one, state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    ticks = rows // NUM_ENVS
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    state = replay.init(ticks, NUM_ENVS, SHAPE, np.dtype(np.uint8))
    written, chunk = 0, 5_000
    while written < ticks * 5 // 4:  # past the end of the ring, so that old rows are overwritten
        state = jax.block_until_ready(fill(state, jnp.asarray(written), chunk))
        written += chunk
    sample = jax.jit(lambda state, key: replay.sample(state, key, BATCH, SHAPE, STACK, 0.5))
    wrong = seen = 0
    for seed in range(200):
        batch = sample(state, jax.random.PRNGKey(seed)).transition
        newest = np.asarray(batch.s_tm1)[:, 5, 7, -1]
        wrong += int((newest != np.asarray(batch.a_tm1)).sum())  # the action is the mark of its row
        stack = np.asarray(batch.s_tm1)[:, 5, 7].astype(int)
        steps = np.diff(stack, axis=1) % 256
        wrong += int((~np.isin(steps, [31, 32])).any(axis=1).sum())
        wrong += int((~np.isin((np.asarray(batch.s_t)[:, 5, 7, -1].astype(int) - newest) % 256, [31, 32])).sum())
        seen += BATCH
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    arrays = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    figures = {
        "rows": rows,
        "rows_written": written * NUM_ENVS,
        "replay_gb": arrays / 1e9,
        "peak_memory_gb": peak * 1024 / 1e9,
        "peak_before_gb": before * 1024 / 1e9,
        "sampled": seen,
        "sampled_wrong": wrong,
        "seconds": time.perf_counter() - started,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
