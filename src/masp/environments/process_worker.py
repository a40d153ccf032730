"""The process of some environments of a `ProcessVector`, which executes the requests of a pipe.

It does not import JAX, so that it costs no more than its environments. It exits when the pipe closes, which also
happens when the parent is killed.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from masp.environments.episode_env import EpisodeEnv
from masp.errors import UserError
from masp.importing import one_line

Answer = tuple[str, Any]
"""`done` with the result, `mistake` with the message of a `UserError`, or `failure` with a line and a traceback."""

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def serve(
    pipe: Connection, make: Callable[[], gymnasium.Env], memory: Any, indices: range, observation: np.ndarray
) -> None:
    """Execute requests, one for each of the first environments of this process, until the pipe is closed.

    Args:
      memory: bytes of the observations of all environments, shared with the parent.
      indices: numbers of the environments of this process.
      observation: an array with the shape and dtype of one observation.
    """
    for number in STOP_SIGNALS:  # they may reach all processes of a group; the parent handles them
        signal.signal(number, signal.SIG_IGN)
    rows = np.frombuffer(memory, observation.dtype).reshape(-1, *observation.shape)
    envs: dict[int, EpisodeEnv] = {}

    def answer(index: int, name: str, argument: Any) -> Answer:
        try:
            if index not in envs:  # made here, so that an error of the constructor becomes an answer
                envs[index] = EpisodeEnv(make(), rows[index, ...], index)
            return "done", getattr(envs[index], name)(argument)
        except UserError as error:
            return "mistake", str(error)
        except Exception as error:
            return "failure", f"{one_line(error)}\n{traceback.format_exc()}"

    while True:
        try:
            requests = pipe.recv()
            pipe.send([answer(index, *request) for index, request in zip(indices, requests, strict=False)])
        except (EOFError, OSError):
            break
    for env in envs.values():
        env.close()
