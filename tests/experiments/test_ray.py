"""Units on a Ray cluster of two nodes, which have processes and ports of their own on this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_runs import RUN_ENVIRONMENT, finish, half_way, lines, results, wait_for

from masp.errors import UserError
from masp.experiments import ray_executor
from masp.experiments.ray_executor import RayExecutor
from masp.experiments.store import Store

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # Ray forks its nodes from this process


@pytest.fixture
def cluster(monkeypatch):
    """A head and a second node with one processor each; their workers inherit this process's environment."""
    from ray.cluster_utils import Cluster

    for name, value in RUN_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    node = {"num_cpus": 1, "num_gpus": 0, "include_dashboard": False, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(num_cpus=1, num_gpus=0, object_store_memory=80_000_000)
    yield cluster
    cluster.shutdown()


def raylet(node) -> int:
    """The process that starts a node's workers."""
    return node.all_processes["raylet"][0].process.pid


def parent(pid: int) -> int:
    """The process that started another one; 0 if that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_killed_worker_and_a_killed_node(cluster, expected, new_store, start):
    """Each node has a trial. A worker is killed, then the other node: all trials end as if nothing had happened."""
    store = new_store()
    head, second = cluster.head_node, next(iter(cluster.worker_nodes))
    driver = start(store, "--ray", cluster.address)

    def trainer_on(node):
        return next((pid for pid in half_way(store) if parent(pid) == raylet(node)), None)

    worker = wait_for(lambda: trainer_on(head), driver)
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: trainer_on(second), driver)
    cluster.remove_node(second, allow_graceful=False)
    finish(driver)
    assert len(lines(store)) == 2
    assert results(store) == expected


def test_a_local_cluster_listens_on_this_machine_only():
    started = []
    ray_executor._connect(SimpleNamespace(init=lambda **settings: started.append(settings)), "auto")
    (settings,) = started
    assert settings["address"] == "local"
    assert settings["_node_ip_address"] == "127.0.0.1"
    assert settings["include_dashboard"] is False


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "no cluster answers there"), ("ray://127.0.0.1:1", "no cluster"), ("nonsense", "HOST:PORT")],
)
def test_an_address_where_no_cluster_answers(tmp_path, address, message):
    with pytest.raises(UserError, match=message):
        RayExecutor(Store(tmp_path), "tiny", address, 1, 0)
