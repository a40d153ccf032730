"""The loop that fits an environment: compiled for JAX environments, around `env.step` for all others."""

from __future__ import annotations

from masp.agent.agent import Agent
from masp.config import TrainConfig
from masp.environments import is_jax, make_env
from masp.macros.actions import ActionSet
from masp.training.compiled import CompiledLoop
from masp.training.host import HostLoop
from masp.training.lanes import lane_actions

Loop = CompiledLoop | HostLoop


def make_loop(config: TrainConfig, actions: ActionSet | None = None) -> Loop:
    """The loop of a configuration; `actions` None: those that it asks for."""
    env = make_env(config.env, config.env_options, config.num_envs, config.env_workers)
    agent = Agent(config, env.info, lane_actions([config], env.info)[0] if actions is None else actions)
    if is_jax(env):
        return CompiledLoop(agent, env)
    evaluation_envs = min(config.num_envs, config.eval_episodes)
    workers = min(config.env_workers, evaluation_envs)  # their processes start with the first evaluation
    evaluation_env = make_env(config.env, config.env_options, evaluation_envs, workers)
    assert not is_jax(evaluation_env)
    return HostLoop(agent, env, evaluation_env)
