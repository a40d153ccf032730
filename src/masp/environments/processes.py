"""N Gymnasium environments, each in its own process, as a `HostEnv`.

For environments of which a process can hold only one, such as emulators, and for environments so slow that parallel
steps are faster. The seeds are those of `GymVector`, so both give the same steps. `process_worker` has the code that
runs inside the processes.
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

from masp.environments.base import EnvInfo, Step, episode_seed
from masp.environments.process_worker import serve
from masp.errors import UserError

SECONDS_TO_END = 5.0
"""Time for a process to exit after its pipe is closed, before it is killed."""


class ProcessVector:
    """The processes start with the first `reset` or `restore`, so that a description costs nothing."""

    def __init__(self, make: Callable[[], gymnasium.Env], num_envs: int, info: EnvInfo):
        """`make` builds one environment inside its process, so it must be picklable; `info` describes it."""
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self.info, self.num_envs, self._make = info, num_envs, make
        self._workers: list[Worker] = []
        self._observation = np.zeros((num_envs, *info.observation_shape), info.observation_dtype)
        self._seed: int | None = None
        self._episode = np.zeros(num_envs, np.int64)
        self._resetting = np.zeros(num_envs, bool)
        weakref.finalize(self, end_workers, self._workers)  # also at exit, without a call of `close`

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes; [N, ...] first observations. The same seed gives the same episodes."""
        self._start(seed)
        self._episode[:] = 0
        self._resetting[:] = False
        self._request([("reset", self._episode_seed(i)) for i in range(self.num_envs)])
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] in each environment; one whose episode ended in the last tick only resets."""
        self._require_reset()
        self._episode += self._resetting
        answers = self._request(
            [
                ("reset", self._episode_seed(i)) if self._resetting[i] else ("step", action)
                for i, action in enumerate(np.asarray(actions).tolist())
            ]
        )
        reward = np.array([0.0 if answer is None else answer.reward for answer in answers], np.float32)
        terminated, truncated, life_lost = (
            np.array([answer is not None and getattr(answer, flag) for answer in answers])
            for flag in ("terminated", "truncated", "life_lost")
        )
        self._resetting = terminated | truncated
        # A copy, because the processes write the next observations into the same memory.
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """The state of each environment; `restore` with the seed of the run recovers it."""
        self._require_reset()
        states = self._request([("save", None)] * self.num_envs)
        return {
            "episode": self._episode.copy(),  # [N] number of earlier episodes
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "lengths": np.array([len(state) for state in states], np.int64),  # [N] bytes of each state
            "state": np.frombuffer(b"".join(states), np.uint8).copy(),  # [sum of lengths]
            "observation": self._observation.copy(),  # [N, ...] the newest
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Recover the state of `snapshot` in a run with this seed."""
        if len(snapshot["episode"]) != self.num_envs:
            raise UserError(
                f"the checkpoint holds {len(snapshot['episode'])} environments, but the run has {self.num_envs}"
            )
        self._start(seed)
        self._episode[:] = snapshot["episode"]
        states = np.split(snapshot["state"], np.cumsum(snapshot["lengths"])[:-1])
        same = self._request(
            [
                ("load", (self._episode_seed(i), state.tobytes(), observation))
                for i, (state, observation) in enumerate(zip(states, snapshot["observation"], strict=True))
            ]
        )
        self._resetting[:] = snapshot["resetting"]
        if not all(same):
            raise UserError(
                f"{self.info.env_id} does not repeat an episode when its seed and actions are repeated, "
                "so a run of it cannot be resumed"
            )

    def render(self) -> np.ndarray | None:
        """A picture of the first environment; None if its render mode is not rgb_array."""
        self._require_reset()
        return self._request([("render", None)])[0]

    def close(self) -> None:
        """End all processes; the next `reset` starts new ones."""
        self._seed = None
        end_workers(self._workers)

    def _start(self, seed: int) -> None:
        self._seed = int(seed)
        if not self._workers:
            self._observation = start_workers(self._workers, self.info.env_id, self._make, self._observation)

    def _request(self, requests: list[tuple[str, Any]]) -> list[Any]:
        """Send request i to environment i, then collect the answers; an exception ends all processes."""
        workers = self._workers[: len(requests)]
        try:
            for worker, request in zip(workers, requests, strict=True):
                worker.send(request)
            return [worker.receive() for worker in workers]
        except BaseException:  # also an interrupt: pending answers would be mistaken for those of the next request
            self.close()
            raise

    def _episode_seed(self, i: int) -> int:
        assert self._seed is not None
        return episode_seed(self._seed, i, int(self._episode[i]))

    def _require_reset(self) -> None:
        if self._seed is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")


class ProcessError(RuntimeError):
    """An environment failed, or its process died."""


class Worker:
    """A process and the parent's end of its pipe."""

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


def start_workers(
    workers: list[Worker], name: str, make: Callable[[], gymnasium.Env], observation: np.ndarray
) -> np.ndarray:
    """Start one process for each row of `observation` [N, ...] and append it to `workers`.

    Returns shared memory of that shape, into which the processes write their observations.
    """
    # Spawned, because a forked copy of a process that runs JAX can deadlock. The shared memory is anonymous, so it
    # needs no clean-up if a process dies.
    context = multiprocessing.get_context("spawn")
    memory = context.RawArray("B", observation.nbytes)
    with _without_interrupts():
        for i, row in enumerate(observation):
            parent_end, child_end = context.Pipe()
            process = context.Process(target=serve, args=(child_end, make, memory, i, row), daemon=True)
            process.start()
            child_end.close()  # so that the pipe breaks when the process dies
            workers.append(Worker(f"environment {i} ({name})", process, parent_end))
    return np.frombuffer(memory, observation.dtype).reshape(observation.shape)


def end_workers(workers: list[Worker]) -> None:
    """Close all pipes, which makes the processes exit; kill those that do not."""
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
    """Block SIGINT: processes inherit this at their start; a pending one reaches this process afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
