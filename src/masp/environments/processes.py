"""N Gymnasium environments in processes, as a `HostEnv`.

For environments of which a process can hold only one, such as emulators, and for environments so slow that parallel
steps are faster (`--env-workers`). `process_worker` has the code that runs inside the processes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import warnings
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
from masp.errors import RestartWarning, UserError

SECONDS_TO_END = 5.0
"""Time for a process to exit after its pipe is closed, before it is killed."""
SECONDS_TO_START = 60.0
"""Time beyond the limit that a process may take for its first answer: it starts and makes its environments."""
_CONTEXT = multiprocessing.get_context("spawn")
"""Not forked, because a forked copy of a process that runs JAX can deadlock."""


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
        self._memory: Any = None
        """Shared memory, into which the processes write their observations."""
        self._seconds, self._restarts = 0.0, 0
        self._history: list[list[Request]] = [[] for _ in range(num_envs)]
        # Also at exit, before multiprocessing waits for its processes, which ignore its SIGTERM.
        Finalize(self, end_workers, (self._workers,), exitpriority=0)

    def close(self) -> None:
        """End all processes; the next `reset` starts new ones."""
        self._seed = None
        end_workers(self._workers)

    def set_time_limit(self, seconds: float, restarts: int) -> None:
        """Wait for a step or a reset no longer than `seconds`; 0: as long as it takes.

        A process that takes longer, or that dies, is started anew, `restarts` times in all; its environments play their
        episodes again up to the same step. Then, or with 0 restarts, that is an error.
        """
        self._seconds, self._restarts = seconds, restarts

    def _start(self, seed: int) -> None:
        super()._start(seed)
        if not self._workers:
            # Anonymous, so that it needs no clean-up if a process dies.
            self._memory = _CONTEXT.RawArray("B", self._observation.nbytes)
            shape, dtype = self._observation.shape, self._observation.dtype
            self._observation = np.frombuffer(self._memory, dtype).reshape(shape)
            for share in np.array_split(np.arange(self.num_envs), self._num_workers):
                self._workers.append(self._new_worker(range(int(share[0]), int(share[-1]) + 1)))

    def _new_worker(self, indices: range) -> Worker:
        return start_worker(self.info.env_id, self._make, self._memory, indices, np.zeros_like(self._observation[0]))

    def _request(self, requests: list[Request]) -> list[Any]:
        """Send all requests, then collect the answers; an exception ends all processes."""
        numbers = [k for k, worker in enumerate(self._workers) if worker.indices.start < len(requests)]
        parts = [requests[self._workers[k].indices.start : self._workers[k].indices.stop] for k in numbers]
        try:
            for k, part in zip(numbers, parts, strict=True):
                self._send(k, part)
            return [result for k, part in zip(numbers, parts, strict=True) for result in self._receive(k, part)]
        except BaseException:  # also an interrupt: pending answers would be mistaken for those of the next request
            self.close()
            raise

    def _send(self, k: int, part: list[Request]) -> None:
        if self._restarts:  # if the process has died, `_receive` starts a new one and repeats the requests
            with contextlib.suppress(ProcessError):
                self._workers[k].send(part)
        else:
            self._workers[k].send(part)

    def _receive(self, k: int, part: list[Request]) -> list[Any]:
        """The results of worker `k`, which is started anew if it takes too long or dies and that is allowed."""
        while True:
            try:
                results = self._workers[k].receive(self._seconds)
                break
            except (EnvTimeoutError, ProcessDiedError) as error:
                if not self._restarts:
                    raise
                self._restarts -= 1
                warnings.warn(
                    f"{error}; started anew, {self._restarts} restarts are left", RestartWarning, stacklevel=2
                )
                self._start_anew(k)
                self._workers[k].send(part)
        if self._restarts:
            for i, request in zip(self._workers[k].indices, part, strict=False):
                self._remember(i, request)
        return results

    def _remember(self, i: int, request: Request) -> None:
        """Record a request to environment `i`; a reset or restore clears the earlier ones."""
        if request[0] in ("reset", "load"):
            self._history[i] = [request]
        elif request[0] == "step":
            self._history[i].append(request)

    def _start_anew(self, k: int) -> None:
        """Replace worker `k` by a new one, whose environments play their episodes again up to the same step."""
        indices = self._workers[k].indices
        self._workers[k].kill()
        self._workers[k] = self._new_worker(indices)
        histories = [self._history[i] for i in indices]
        for step in range(max(map(len, histories))):
            requests: list[Request] = [
                history[step] if step < len(history) else ("save", None) for history in histories
            ]
            self._workers[k].send(requests)
            self._workers[k].receive(self._seconds)


class ProcessError(RuntimeError):
    """An environment failed."""


class ProcessDiedError(ProcessError):
    """The process of an environment died."""


class EnvTimeoutError(UserError):
    """An environment took longer than it may."""


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

    def receive(self, seconds: float = 0.0) -> list[Any]:
        """The results of the requests, which may take so many `seconds`; 0: any time."""
        limit = seconds if self._has_answered else seconds + SECONDS_TO_START
        try:
            if seconds and not self.pipe.poll(limit):
                raise EnvTimeoutError(f"{self._which()} ({self._env_id}) took more than {seconds:g} seconds")
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

    def kill(self) -> None:
        """End the process at once."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        self.process.close()

    def _which(self) -> str:
        first, last = self.indices[0], self.indices[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"

    def _death(self) -> ProcessDiedError:
        self.process.join(SECONDS_TO_END)
        code = self.process.exitcode
        # A spawned process runs the script of its parent again, up to the part that only the main process runs.
        hint = "" if self._has_answered or code != 1 else '; a script must train under `if __name__ == "__main__"`'
        return ProcessDiedError(f"{self._which()} ({self._env_id}): its process died with exit code {code}{hint}")


def start_worker(
    env_id: str, make: Callable[[], gymnasium.Env], memory: Any, indices: range, observation: np.ndarray
) -> Worker:
    """Start the process of the environments `indices`, which write observations like `observation` into `memory`."""
    with _without_stop_signals():
        parent_end, child_end = _CONTEXT.Pipe()
        arguments = (child_end, make, memory, indices, observation)
        process = _CONTEXT.Process(target=serve, args=arguments, daemon=True)
        process.start()
        child_end.close()  # so that the pipe breaks when the process dies
    return Worker(env_id, indices, process, parent_end)


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
