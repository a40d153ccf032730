"""Units on a Ray cluster, or on a local Ray.

Workers need the package, and the store under the same path, for example on a network file system. If a worker is
killed, Ray runs its unit again on a free machine, where it resumes from its checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import socket
from functools import cache
from typing import Any

from masp.errors import UserError
from masp.experiments.plan import Unit, unit_from_json, unit_to_json
from masp.experiments.store import Store
from masp.experiments.work import Outcome, prepare_process, run_unit

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
RETRIES = 3
"""How often Ray restarts a unit whose worker died."""


class RayExecutor:
    """Runs as many units at once as the cluster has resources for."""

    def __init__(self, store: Store, command: str, address: str, cpus: float, gpus: float):
        try:
            import ray
        except ImportError:
            raise UserError("--ray needs the package ray: pip install 'masp-rl[cluster]'") from None
        self._ray, self._store, self._command = ray, store, command
        _connect(ray, address)
        self._remote = ray.remote(_run).options(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)
        self._cpus, self._gpus = cpus, gpus
        self._units: dict[Any, Unit] = {}

    def free(self) -> int:
        """Units that fit beside those that run; at least one waits in Ray's own queue."""
        resources = self._ray.cluster_resources()
        fits = [resources.get("CPU", 0.0) / self._cpus] if self._cpus else []
        fits += [resources.get("GPU", 0.0) / self._gpus] if self._gpus else []
        return max(int(min(fits, default=1.0)), 1) - len(self._units)

    def start(self, unit: Unit) -> None:
        path = str(self._store.path.absolute())
        self._units[self._remote.remote(json.dumps(unit_to_json(unit)), path, self._command)] = unit

    def poll(self, seconds: float) -> list[Outcome]:
        ready, _ = self._ray.wait(list(self._units), num_returns=1, timeout=seconds) if self._units else ([], [])
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        unit = self._units.pop(reference)
        try:
            return Outcome(**json.loads(self._ray.get(reference)))
        except self._ray.exceptions.RayError as error:
            return Outcome(unit.id, "failed", f"Ray gave up after {RETRIES} restarts: {type(error).__name__}")

    def close(self) -> None:
        for reference in self._units:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()


def _run(unit: str, store_path: str, command: str) -> str:
    """One unit in a Ray worker; arguments and result are text, so that driver and workers share no classes."""
    from masp.training.origin import commit

    commit()  # of the source that runs here, before it can change
    store = _store(store_path)
    work = unit_from_json(json.loads(unit))
    prepare_process(work, store)
    outcome = run_unit(work, store, command)
    return json.dumps(dataclasses.asdict(outcome))


@cache
def _store(path: str) -> Store:
    """One per process, so that a process writes one file of records."""
    return Store(path)


def _connect(ray: Any, address: str) -> None:
    if address == "auto":
        # A local cluster, reachable from this machine only.
        ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **QUIET)
        return
    _require_answer(address)  # Ray itself would retry for minutes
    ray.init(address=address, **QUIET)


def _require_answer(address: str) -> None:
    """Raise unless something listens at `[ray://]HOST:PORT`."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise UserError(f"--ray {address}: expected auto or HOST:PORT, for example 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UserError(f"--ray {address}: no cluster answers there ({error}); 'ray start --head' starts one") from None
