"""N Gymnasium environments, each in a process of its own, as a `HostEnv`.

For environments of which a process can hold only one, as emulators, and for those so slow that stepping them side by
side pays. Like `GymVector`, and with the same seeds: the same environments give the same steps in either.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import gymnasium
import numpy as np

from masp.environments.base import EnvInfo, Step
from masp.environments.gym_vector import episode_seed
from masp.environments.process_worker import serve
from masp.errors import UserError

SECONDS_TO_END = 5.0
"""How long a process may take to end by itself once its pipe is closed."""


class ProcessError(RuntimeError):
    """An environment failed, or its process died."""


class ProcessVector:
    """Processes start with the first `reset` or `restore`: what is only looked at costs nothing."""

    def __init__(self, make: Callable[[], gymnasium.Env], num_envs: int, info: EnvInfo):
        """`make` builds one environment, inside its process, so it must be picklable; `info` says what it is."""
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self.info, self.num_envs, self._make = info, num_envs, make
        self._workers: list[_Worker] = []
        self._observation = np.zeros((num_envs, *info.observation_shape), info.observation_dtype)
        self._seed: int | None = None
        self._episode = np.zeros(num_envs, np.int64)
        self._resetting = np.zeros(num_envs, bool)
        weakref.finalize(self, _end, self._workers)  # also at exit, where nobody called `close`

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere; [N, ...] first observations. The same seed gives the same episodes."""
        self._start(seed)
        self._episode[:] = 0
        self._resetting[:] = False
        self._ask([("reset", self._episode_seed(i)) for i in range(self.num_envs)])
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] each; an environment whose episode ended in the last tick only resets."""
        self._require_reset()
        self._episode += self._resetting
        played = enumerate(np.asarray(actions).tolist())
        answers = self._ask(
            [("reset", self._episode_seed(i)) if self._resetting[i] else ("step", a) for i, a in played]
        )
        reward = np.array([0.0 if answer is None else answer.reward for answer in answers], np.float32)
        terminated, truncated, life_lost = (
            np.array([answer is not None and getattr(answer, flag) for answer in answers])
            for flag in ("terminated", "truncated", "life_lost")
        )
        self._resetting = terminated | truncated
        # A copy: the processes write the next observations into the same memory.
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Where every environment stands; `restore` with the seed of the run brings it back."""
        self._require_reset()
        saved = self._ask([("save", None)] * self.num_envs)
        return {
            "episode": self._episode.copy(),  # [N] how many ended before this one
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "lengths": np.array([len(state) for state in saved], np.int64),  # [N] bytes of each state
            "state": np.frombuffer(b"".join(saved), np.uint8).copy(),  # [sum of lengths]
            "observation": self._observation.copy(),  # [N, ...] the newest
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go to where `snapshot` was taken in a run with this seed."""
        if len(snapshot["episode"]) != self.num_envs:
            raise UserError(
                f"the checkpoint holds {len(snapshot['episode'])} environments, but the run has {self.num_envs}"
            )
        self._start(seed)
        self._episode[:] = snapshot["episode"]
        states = np.split(snapshot["state"], np.cumsum(snapshot["lengths"])[:-1])
        saved = zip(states, snapshot["observation"], strict=True)
        same = self._ask([("load", (self._episode_seed(i), s.tobytes(), o)) for i, (s, o) in enumerate(saved)])
        self._resetting[:] = snapshot["resetting"]
        if not all(same):
            raise UserError(
                f"{self.info.env_id} does not repeat an episode when its seed and actions are repeated, "
                "so a run of it cannot be resumed"
            )

    def render(self) -> np.ndarray | None:
        """What the first environment draws of itself; None if it was not made to."""
        self._require_reset()
        return self._ask([("render", None)])[0]

    def close(self) -> None:
        """End all processes; the next `reset` starts new ones."""
        self._seed = None
        _end(self._workers)

    def _start(self, seed: int) -> None:
        self._seed = int(seed)
        if self._workers:
            return
        # Spawned, because a forked copy of a process that runs JAX can hang. The memory has no name and needs no
        # cleaning up, whoever dies.
        context = multiprocessing.get_context("spawn")
        memory = context.RawArray("B", self._observation.nbytes)
        shape, dtype = self._observation.shape, self._observation.dtype
        with _without_interrupts():
            for i in range(self.num_envs):
                ours, theirs = context.Pipe()
                arguments = (theirs, self._make, memory, i, self._observation[i])
                process = context.Process(target=serve, args=arguments, daemon=True, name=f"{self.info.env_id}-{i}")
                process.start()
                theirs.close()  # so that the pipe ends with the process
                self._workers.append(_Worker(f"environment {i} ({self.info.env_id})", process, ours))
        self._observation = np.frombuffer(memory, dtype).reshape(shape)

    def _ask(self, requests: list[tuple[str, Any]]) -> list[Any]:
        """One request to each of the first environments, all at once; their answers.

        Whatever goes wrong ends all processes.
        """
        asked = self._workers[: len(requests)]
        try:
            for worker, request in zip(asked, requests, strict=True):
                worker.send(request)
            return [worker.receive() for worker in asked]
        except BaseException:  # an interrupt as well: answers under way would be taken for those of the next request
            self.close()
            raise

    def _episode_seed(self, i: int) -> int:
        assert self._seed is not None
        return episode_seed(self._seed, i, int(self._episode[i]))

    def _require_reset(self) -> None:
        if self._seed is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")


class _Worker:
    """A process and our end of its pipe."""

    def __init__(self, name: str, process: SpawnProcess, pipe: Connection):
        self.name, self.process, self.pipe = name, process, pipe

    def send(self, request: tuple[str, Any]) -> None:
        try:
            self.pipe.send(request)
        except OSError:
            raise self._death() from None

    def receive(self) -> Any:
        try:
            kind, result = self.pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "mistake":
            raise UserError(result)
        if kind == "failure":
            raise ProcessError(f"{self.name} failed:\n{result}")
        return result

    def _death(self) -> ProcessError:
        self.process.join(SECONDS_TO_END)
        return ProcessError(f"{self.name}: its process died with exit code {self.process.exitcode}")


def _end(workers: list[_Worker]) -> None:
    """Close every pipe, at which its process ends; kill those that do not."""
    for worker in workers:
        worker.pipe.close()
    for worker in workers:
        worker.process.join(SECONDS_TO_END)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
    workers.clear()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started here never see Ctrl-C, not even while they start; ours comes when this is over."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
