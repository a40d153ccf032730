"""A video of one episode of a trained agent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from masp.environments.gymnasium_vector import GymVector
from masp.environments.registry import is_jax, make_env
from masp.errors import UserError
from masp.report.pictures import picture
from masp.report.video import Scene, write_video
from masp.training.playing import PlayerEnv, Tick, make_player_env, play
from masp.training.run import Run

LONGEST = 3_000
"""Steps after which a video is cut."""


def film(run: Run, path: str, seed: int) -> int:
    """Play one episode and write it to `path`; returns its steps."""
    env = _filmed_env(run)
    try:
        return write_video(path, islice(_scenes(run, env, seed), LONGEST))
    finally:
        env.close()


def _filmed_env(run: Run) -> PlayerEnv:
    """The run's environment; one of Gymnasium's is asked to draw itself, if it can."""
    options = tuple(run.config.env_options)
    if isinstance(plain := make_env(run.config.env, options), GymVector) and not is_jax(plain):
        plain.close()
        try:
            return make_player_env(run.config.env, (*options, "render_mode=rgb_array"))
        except UserError:
            pass  # it has no such option
    return make_player_env(run.config.env, options)


def _scenes(run: Run, env: PlayerEnv, seed: int) -> Iterator[Scene]:
    score = 0.0
    for number, tick in enumerate(play(run, env, seed, run.config.eval_epsilon)):
        drawn = _drawn(env)
        if drawn is None:
            drawn = picture(tick.step.observation[0], env.info.observation_kind)
        score += float(tick.step.reward[0])
        yield Scene(drawn, _caption(run, tick, number + 1, score))
        if tick.step.terminated[0] or tick.step.truncated[0]:
            return


def _drawn(env: PlayerEnv) -> np.ndarray | None:
    """What the environment draws of itself after a step, if anything."""
    return env.render() if hasattr(env, "render") else None


def _caption(run: Run, tick: Tick, number: int, score: float) -> str:
    action = int(tick.action[0])
    length = len(run.actions.sequence(action))
    part = f" ({int(tick.position[0]) + 1} of {length})" if length > 1 else ""
    return f"{run.actions.names[action]}{part}\nstep {number}   return {score:g}"
