"""Play of a trained agent, to mine macros from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masp.environments import is_jax
from masp.recording import RecordedEpisode
from masp.training.compiled import step_or_reset
from masp.training.run import Run
from masp.training.train import make_loop


def play(run: Run, steps: int, epsilon: float, seed: int) -> list[RecordedEpisode]:
    """Episodes of at least `steps` steps in all, the last ones cut; decisions are random with chance `epsilon`."""
    loop, _ = make_loop(run.config, run.actions)
    agent, env, count = loop.agent, loop.env, run.config.num_envs
    key = jax.random.PRNGKey(seed)
    if is_jax(env):
        resets = jax.random.split(jax.random.fold_in(key, 0), count)
        envs, observation = jax.vmap(env.reset)(resets)
    else:
        envs, observation = None, env.reset(seed)

    @jax.jit
    def decide(actor: Any, tick: Any) -> Any:
        values = agent.learner.values(run.params, agent.actor.inputs(actor), run.similarity, None)
        return agent.actor.decide(actor, values, epsilon, tick, jax.random.fold_in(key, 2 * tick + 1))

    @jax.jit
    def step_jax(envs: Any, primitives: Any, resetting: Any, tick: Any) -> Any:
        return step_or_reset(env, envs, primitives, resetting, jax.random.fold_in(key, 2 * tick + 2))

    advance = jax.jit(lambda actor, step: agent.actor.advance(actor, step))
    actor = jax.jit(agent.actor.init)(jnp.asarray(observation))
    played: list[list[int]] = [[] for _ in range(count)]
    episodes: list[RecordedEpisode] = []
    for tick in range(-(-steps // count)):
        resetting = np.asarray(actor.resetting)
        actor, primitives = decide(actor, tick)
        if envs is None:
            step = env.step(np.asarray(primitives))
        else:
            envs, step = step_jax(envs, primitives, actor.resetting, tick)
        actor, _, ended = advance(actor, step)
        chosen, over, score = np.asarray(primitives), np.asarray(ended.ended), np.asarray(ended.score)
        for i in range(count):
            if not resetting[i]:
                played[i].append(int(chosen[i]))
            if over[i]:
                episodes.append(_episode(played[i], float(score[i]), run))
                played[i] = []
    return episodes + [RecordedEpisode(actions) for actions in played if actions]


def _episode(actions: list[int], score: float, run: Run) -> RecordedEpisode:
    success = None if run.success_above is None else score > run.success_above
    return RecordedEpisode(actions, score, success)
