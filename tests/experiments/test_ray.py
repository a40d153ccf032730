"""Units on a local Ray cluster: the unit of a killed worker resumes in another."""

import os
import signal

import pytest
from tiny_runs import finish, half_way, lines, results, wait_for

from masp.errors import UserError
from masp.experiments.ray_executor import RayExecutor
from masp.experiments.store import Store

pytest.importorskip("ray")


def test_a_killed_ray_worker_is_replaced(expected, new_store, start):
    store = new_store()
    driver = start(store, "--ray")
    (victim, *_) = wait_for(lambda: half_way(store), driver)
    assert victim != driver.pid
    os.kill(victim, signal.SIGKILL)
    finish(driver)
    assert len(lines(store)) == 2
    assert results(store) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "no cluster answers there"), ("ray://127.0.0.1:1", "no cluster"), ("nonsense", "HOST:PORT")],
)
def test_an_address_where_no_cluster_answers(tmp_path, address, message):
    with pytest.raises(UserError, match=message):
        RayExecutor(Store(tmp_path), "tiny", address, 1, 0)
