"""N Gymnasium environments in processes, as a `HostEnv`.

For environments of which a process can hold only one, such as emulators, and for environments so slow that parallel
steps are faster (`--env-workers`). `process_worker` has the code that runs inside the processes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any

import gymnasium
import numpy as np

from masp.environments.base import EnvInfo, HostEnv
from masp.environments.episode_vector import EpisodeVector, Request
from masp.environments.gymnasium_vector import Describe, GymVector, describe_env
from masp.environments.process_worker import STOP_SIGNALS, Answer, serve
from masp.errors import UserError

SECONDS_TO_END = 5.0
"""Time for a process to exit after its pipe is closed, before it is killed."""


def make_vector(
    make: Callable[[], gymnasium.Env], num_envs: int, workers: int = 0, describe: Describe = describe_env
) -> HostEnv:
    """`num_envs` environments, stepped in turn in this process, or in so many `workers` processes."""
    if not workers:
        return GymVector(make, num_envs, describe)
    env = make()
    info = describe(env)
    env.close()
    return ProcessVector(make, num_envs, info, workers)


class ProcessVector(EpisodeVector):
    """The processes start with the first `reset` or `restore`, so that a description costs nothing."""

    def __init__(self, make: Callable[[], gymnasium.Env], num_envs: int, info: EnvInfo, workers: int | None = None):
        """`make` builds one environment inside its process, so it must be picklable; `info` describes it.

        `workers`: number of processes; None: one for each environment.
        """
        super().__init__(num_envs, info)
        _require_picklable(make, info.env_id)
        self._make, self._num_workers = make, num_envs if workers is None else min(workers, num_envs)
        self._workers: list[Worker] = []
        # Also at exit, before multiprocessing waits for its processes, which ignore its SIGTERM.
        Finalize(self, end_workers, (self._workers,), exitpriority=0)

    def close(self) -> None:
        """End all processes; the next `reset` starts new ones."""
        self._seed = None
        end_workers(self._workers)

    def _start(self, seed: int) -> None:
        super()._start(seed)
        if not self._workers:
            shares = np.array_split(np.arange(self.num_envs), self._num_workers)
            ranges = [range(int(share[0]), int(share[-1]) + 1) for share in shares]
            self._observation = start_workers(self._workers, self.info.env_id, self._make, self._observation, ranges)

    def _request(self, requests: list[Request]) -> list[Any]:
        """Send all requests, then collect the answers; an exception ends all processes."""
        workers = [worker for worker in self._workers if worker.indices.start < len(requests)]
        try:
            for worker in workers:
                worker.send(requests[worker.indices.start : worker.indices.stop])
            return [result for worker in workers for result in worker.receive()]
        except BaseException:  # also an interrupt: pending answers would be mistaken for those of the next request
            self.close()
            raise


class ProcessError(RuntimeError):
    """An environment failed, or its process died."""


class Worker:
    """A process and the parent's end of its pipe."""

    def __init__(self, env_id: str, indices: range, process: SpawnProcess, pipe: Connection):
        """`indices`: numbers of the environments in the process."""
        self._env_id, self.indices, self.process, self.pipe = env_id, indices, process, pipe
        self._has_answered = False

    def send(self, requests: list[Request]) -> None:
        """Requests for its first environments."""
        try:
            self.pipe.send(requests)
        except OSError:
            raise self._death() from None

    def receive(self) -> list[Any]:
        """The results of the requests."""
        try:
            answers: list[Answer] = self.pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        self._has_answered = True
        for index, (kind, result) in zip(self.indices, answers, strict=False):
            if kind == "mistake":
                raise UserError(result)
            if kind == "failure":
                raise ProcessError(f"environment {index} ({self._env_id}) failed: {result}")
        return [result for _, result in answers]

    def _death(self) -> ProcessError:
        self.process.join(SECONDS_TO_END)
        first, last = self.indices[0], self.indices[-1]
        which = f"environment {first}" if first == last else f"environments {first} to {last}"
        code = self.process.exitcode
        # A spawned process runs the script of its parent again, up to the part that only the main process runs.
        hint = "" if self._has_answered or code != 1 else '; a script must train under `if __name__ == "__main__"`'
        return ProcessError(f"{which} ({self._env_id}): its process died with exit code {code}{hint}")


def start_workers(
    workers: list[Worker],
    env_id: str,
    make: Callable[[], gymnasium.Env],
    observation: np.ndarray,
    shares: list[range],
) -> np.ndarray:
    """Start one process for each share of the rows of `observation` [N, ...] and append it to `workers`.

    Returns shared memory of that shape, into which the processes write their observations.
    """
    # Spawned, because a forked copy of a process that runs JAX can deadlock. The shared memory is anonymous, so it
    # needs no clean-up if a process dies.
    context = multiprocessing.get_context("spawn")
    memory = context.RawArray("B", observation.nbytes)
    with _without_stop_signals():
        for indices in shares:
            parent_end, child_end = context.Pipe()
            arguments = (child_end, make, memory, indices, observation[0])
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            child_end.close()  # so that the pipe breaks when the process dies
            workers.append(Worker(env_id, indices, process, parent_end))
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


def _require_picklable(make: Callable[[], gymnasium.Env], env_id: str) -> None:
    """Raise `UserError` unless another process can import what makes the environment."""
    try:
        ForkingPickler.dumps(make)
    except Exception:
        raise UserError(
            f"{env_id}: another process cannot import the function that makes it; define it at the top level of a "
            "module, or leave out --env-workers"
        ) from None


@contextlib.contextmanager
def _without_stop_signals() -> Iterator[None]:
    """Block them: processes inherit this at their start; a pending one reaches this process afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
