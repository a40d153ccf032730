"""Where a second of training goes, and how far it is from what the machine can multiply.

    python benchmarks/profile_training.py [--cases atari minigrid] [--turns 5] [--out FILE]

The host loop is run with a wait after every stage, which says what each costs but forbids any overlap: `overlapped` is
the same work by the loop itself. Parts of an update are timed as programs of their own; they need not add up to
the whole, because XLA fuses across them. (Adam, which works in place, cannot be timed so: a trace shows it.)
Floating-point work is what XLA counts of the update without our kernels; the limit is the best of several matrix
products in this run, XLA's and ours.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masp import ops
from masp.agent import replay
from masp.bench.turns import in_own_process
from masp.config import TrainConfig, replace
from masp.environments.registry import family_of
from masp.ops.linear import linear
from masp.presets import from_preset
from masp.training.train import make_loop

CASES: dict[str, TrainConfig] = {
    "atari": replace(from_preset("atari", "Breakout"), variant="macros", replay_steps=20_000, min_replay_steps=1_000),
    "minigrid": replace(from_preset("minigrid", "DoorKey-5x5"), variant="macros", env_options=("backend=envpool",)),
}
ITERATIONS = {"atari": 8, "minigrid": 60}


def best_seconds(work: Callable[[], Any], turns: int) -> float:
    """The quickest of some turns, after one that compiles."""
    jax.block_until_ready(work())
    found = []
    for _ in range(turns):
        started = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - started)
    return min(found)


def peak_flops(turns: int) -> float:
    """Products of 2048 x 2048 per second, times what is in one."""
    a = jnp.ones((2048, 2048))
    quickest = min(
        best_seconds(lambda product=product: product(a, a), 3 * turns)  # type: ignore[misc]
        for product in (jax.jit(jnp.matmul), jax.jit(linear))
    )
    return 2 * 2048**3 / quickest


def profile(case: str, turns: int, peak: float) -> dict[str, Any]:
    config, iterations = CASES[case], ITERATIONS[case]
    ops.tune_this_process(family_of(config.env).preset)
    loop = make_loop(config.resolved())
    state = loop.init([config])
    steps = config.num_envs * config.ticks_per_iteration
    state = loop.run(state, config.agent.min_replay_steps // steps + 1, False)
    state = jax.block_until_ready(loop.run(state, 2, True))
    stages: dict[str, list[float]] = {}
    overlapped = []
    for _ in range(turns):
        state, seconds = staged(loop, state, iterations)
        for name, value in seconds.items():
            stages.setdefault(name, []).append(value)
        started = time.perf_counter()
        state = jax.block_until_ready(loop.run(state, iterations, True))
        overlapped.append(time.perf_counter() - started)
    total = float(np.median(np.sum(list(stages.values()), axis=0)))
    updates = iterations * config.updates_per_iteration
    learning = float(np.median(stages["learning"])) / updates
    parts, flops = update_parts(loop.agent, state.agent, turns)
    loop.close()
    return {
        "milliseconds_per_iteration": {name: 1e3 * float(np.median(v)) / iterations for name, v in stages.items()},
        "share": {name: float(np.median(v)) / total for name, v in stages.items()},
        "steps_per_second_overlapped": iterations * steps / float(np.median(overlapped)),
        "staged_over_overlapped_ratio": total / float(np.median(overlapped)),
        "updates_per_second": updates / float(np.median(overlapped)),
        "milliseconds_of_parts": {name: 1e3 * value for name, value in parts.items()},
        "gigaflop_per_update": flops / 1e9,
        "milliseconds_per_update": 1e3 * learning,
        "update_gigaflops": flops / learning / 1e9,
        "share_of_peak": flops / learning / peak,
    }


def staged(loop: Any, state: Any, iterations: int) -> tuple[Any, dict[str, float]]:
    """The loop's own steps with a wait after each; seconds by stage."""
    seconds = dict.fromkeys(("environment", "deciding", "remembering", "learning", "rest"), 0.0)
    agent, ticks = state.agent, loop.agent.config.ticks_per_iteration
    begun = time.perf_counter()

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = jax.block_until_ready(work())
        seconds[name] += time.perf_counter() - started
        return result

    for tick in range(iterations * ticks):
        agent, primitives = timed("deciding", lambda a=agent: loop._decide(a))  # type: ignore[misc]
        known = np.asarray(primitives)
        if tick % ticks == ticks - 1:
            agent = timed("learning", lambda a=agent: loop._learn(a))  # type: ignore[misc]
        step = timed("environment", lambda k=known: loop.env.step(k))  # type: ignore[misc]
        agent = timed("remembering", lambda a=agent, s=step: loop._observe(a, s))  # type: ignore[misc]
    seconds["rest"] = time.perf_counter() - begun - sum(seconds.values())
    return state._replace(agent=agent), seconds


def update_parts(agent: Any, state: Any, turns: int) -> tuple[dict[str, float], float]:
    """Seconds of the parts of one update, each a program of its own; and the floating-point work of the whole."""
    learner, learned = agent.learner, state.learner
    a = agent.config.agent
    key = jax.random.PRNGKey(0)
    draw = jax.jit(lambda m: replay.sample(m, key, a.batch_size, agent.info.observation_shape, a.stack, 0.5))
    sample = draw(state.memory)
    noise = learner.noise(learned, key, 3)
    batch = sample.transition

    def forward(params: Any, states: Any, which: int) -> Any:
        return learner.outputs(params, states, learned.similarity, noise[which])

    def objective(params: Any) -> Any:
        return jnp.sum(ops.expected_values(forward(params, batch.s_tm1, 0), learner.support))

    online = jax.jit(lambda p: forward(p, batch.s_tm1, 0))
    targets = jax.jit(lambda p, t: (forward(p, batch.s_t, 1), forward(t, batch.s_t, 2)))
    both = jax.jit(jax.grad(objective))
    write = jax.jit(lambda m: replay.reprioritise(m, sample.leaf, sample.weight, 0.5).tree)
    forward_seconds = best_seconds(lambda: online(learned.params), turns)
    parts = {
        "sampling": best_seconds(lambda: draw(state.memory), turns),
        "forward pass": forward_seconds,
        "backward pass": best_seconds(lambda: both(learned.params), turns) - forward_seconds,
        "target passes": best_seconds(lambda: targets(learned.params, learned.target_params), turns),
        "priorities": best_seconds(lambda: write(state.memory), turns),
    }
    return parts, floating_point_work(lambda s: learner.update(s, sample, key, lambda: sample)[0], learned)


def floating_point_work(work: Callable[..., Any], *args: Any) -> float:
    """Operations of a program; XLA cannot look into our kernels, so they are switched off for counting."""
    before = os.environ.get("MASP_NATIVE")
    os.environ["MASP_NATIVE"] = "0"
    try:
        return float(jax.jit(work).lower(*args).compile().cost_analysis()["flops"])
    finally:
        del os.environ["MASP_NATIVE"]
        if before is not None:
            os.environ["MASP_NATIVE"] = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    peak = peak_flops(args.turns)
    figures: dict[str, Any] = {
        "peak_gigaflops": peak / 1e9,
        "load_average": os.getloadavg()[0],
        "kernels": ops.kernels_status(),
    }
    for case in args.cases:
        figures[case] = in_own_process(profile, case, args.turns, peak)
    text = json.dumps(figures, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
