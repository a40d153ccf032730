"""The loop that fits an environment: compiled for JAX environments, around `env.step` for all others."""

from __future__ import annotations

from masp.agent.agent import Agent
from masp.config import TrainConfig
from masp.environments import is_jax, make_env
from masp.environments.base import HostEnv, JaxEnv
from masp.environments.processes import ProcessVector
from masp.errors import UserError
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
        _limit_time(config, env)
        return CompiledLoop(agent, env)
    evaluation_envs = min(config.num_envs, config.eval_episodes)
    workers = min(config.env_workers, evaluation_envs)  # their processes start with the first evaluation
    evaluation_env = make_env(config.env, config.env_options, evaluation_envs, workers)
    assert not is_jax(evaluation_env)
    for vector in (env, evaluation_env):
        _limit_time(config, vector)
    return HostLoop(agent, env, evaluation_env)


def _limit_time(config: TrainConfig, env: JaxEnv | HostEnv) -> None:
    """Tell the environments how long they may take; only those in processes can be ended."""
    if config.env_timeout:
        if not isinstance(env, ProcessVector):
            raise UserError(
                f"--env-timeout: environments of {config.env} run in the training process, which cannot end them; "
                "add --env-workers N, where the environment allows it"
            )
        env.set_time_limit(config.env_timeout, config.env_restarts)
