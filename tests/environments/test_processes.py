"""Environments in processes: the same steps as in one process, and no process left behind."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from odd_envs import Composite, Drifting, Failing, ImportsOfJax, Rendering, Unmakeable
from vectors import assert_equal, play, stack

from masp.environments import make_env, own
from masp.environments.gymnasium_vector import GymVector
from masp.environments.processes import ProcessError, ProcessVector
from masp.errors import UserError
from tape_env import TapeEnv

INFO = GymVector(TapeEnv).info


@pytest.fixture(scope="module")
def shared():
    vector = ProcessVector(TapeEnv, 2, INFO)
    yield vector
    vector.close()


def test_steps_equal_those_in_one_process(shared):
    first, _, steps = play(shared, 60, seed=7)
    expected_first, _, expected = play(GymVector(TapeEnv, 2), 60, seed=7)
    np.testing.assert_array_equal(first, expected_first)
    assert_equal(steps, expected)
    assert steps.terminated.any()
    assert steps.truncated.any()
    dtypes = [[part.dtype for part in step if part is not None] for step in (steps, expected)]
    assert dtypes[0] == dtypes[1]


def test_a_process_can_hold_several_environments():
    first, _, expected = play(GymVector(TapeEnv, 5), 40, seed=7)
    vector = ProcessVector(TapeEnv, 5, INFO, workers=2)
    again, _, steps = play(vector, 40, seed=7)
    assert [worker.indices for worker in vector._workers] == [range(3), range(3, 5)]
    np.testing.assert_array_equal(again, first)
    assert_equal(steps, expected)
    vector.close()


@pytest.mark.parametrize("ticks", [3, 13])
def test_a_run_goes_on_in_processes_and_back(shared, ticks):
    """Snapshots of both kinds of vectors are the same."""
    actions, later = np.random.default_rng(2).integers(3, size=(2, 30, 2))
    serial = GymVector(TapeEnv, 2)
    for vector in (serial, shared):
        vector.reset(4)
        stack(vector, actions[:ticks])
    snapshots = serial.snapshot(), shared.snapshot()
    for key, value in snapshots[0].items():
        np.testing.assert_array_equal(value, snapshots[1][key])
    for vector in (serial, shared):
        vector.reset(5)
    serial.restore(4, snapshots[1])
    shared.restore(4, snapshots[0])
    assert_equal(stack(serial, later), stack(shared, later))


def test_environments_of_users_are_played_in_processes():
    vector, serial = (make_env("odd_envs:Composite", (), 3, workers) for workers in (2, 0))
    assert vector.info.env_id == serial.info.env_id == "odd_envs:Composite"
    assert_equal(play(vector, 20)[2], play(serial, 20)[2])
    assert len(vector._workers) == 2
    vector.close()


def test_what_cannot_be_played_in_processes_is_named():
    class Local(TapeEnv):
        pass

    with pytest.raises(UserError, match=r"local-Local\S*: another process cannot import the function that makes it"):
        make_env(own.id_of(Local), (), 2, 2)
    with pytest.raises(UserError, match="planted-grid: environments of the family planted are not played in processes"):
        make_env("planted-grid", (), 2, 2)
    with pytest.raises(UserError, match="own_parts:make_jax_corridor is a JAX environment"):
        make_env("own_parts:make_jax_corridor", (), 2, 2)
    with pytest.raises(UserError, match="backend=envpool needs no --env-workers"):
        make_env("DoorKey-5x5", ["backend=envpool"], 2, 2)


def test_processes_do_not_import_jax():
    """They cost no more than their environment."""
    vector = ProcessVector(ImportsOfJax, 1, INFO)
    assert vector.reset(0)[0, 0] == 0
    vector.close()


def test_observations_are_flattened_and_lost_lives_reported():
    expected = GymVector(Composite, 1)
    vector = ProcessVector(Composite, 1, expected.info)
    assert_equal(play(vector, 20)[2], play(expected, 20)[2])
    vector.close()


@pytest.mark.parametrize("ticks", [0, 1, 2, 5, 13, 40])
def test_resumed_equals_uninterrupted(shared, ticks, tmp_path):
    rng = np.random.default_rng(1)
    shared.reset(5)
    stack(shared, rng.integers(3, size=(ticks, 2))) if ticks else None
    np.savez(tmp_path / "snapshot.npz", **shared.snapshot())
    later = rng.integers(3, size=(30, 2))
    uninterrupted = stack(shared, later)
    shared.reset(6)  # another state
    with np.load(tmp_path / "snapshot.npz") as snapshot:
        shared.restore(5, snapshot)
        for key, value in shared.snapshot().items():
            np.testing.assert_array_equal(value, snapshot[key])
    assert_equal(stack(shared, later), uninterrupted)


def test_snapshots_of_another_run_are_refused(shared):
    play(shared, 5, seed=0)
    snapshot = shared.snapshot()
    with pytest.raises(UserError, match="holds 2 environments, but the run has 3"):
        ProcessVector(TapeEnv, 3, INFO).restore(0, snapshot)
    with pytest.raises(UserError, match="TapeEnv does not repeat an episode"):
        shared.restore(1, snapshot)
    drifting = ProcessVector(Drifting, 1, INFO)
    play(drifting, 3)
    with pytest.raises(UserError, match="TapeEnv does not repeat an episode"):
        drifting.restore(0, drifting.snapshot())
    drifting.close()


def test_observations_are_copies(shared):
    first = shared.reset(0)
    copy = first.copy()
    shared.step(np.array([1, 1]))
    np.testing.assert_array_equal(first, copy)


def test_render_shows_the_first_environment(shared):
    shared.reset(0)
    assert shared.render() is None  # its render mode is None
    vector = ProcessVector(Rendering, 2, INFO)
    first = vector.reset(0)
    np.testing.assert_array_equal(vector.render(), np.full((2, 2, 3), first[0, 2]))
    vector.close()


def test_no_process_starts_before_a_reset():
    vector = ProcessVector(TapeEnv, 2, INFO)
    assert not vector._workers
    with pytest.raises(RuntimeError, match="comes first"):
        vector.step(np.array([0, 0]))
    with pytest.raises(UserError, match="num_envs must be at least 1, got 0"):
        ProcessVector(TapeEnv, 0, INFO)


def test_closed_and_deleted_vectors_leave_no_process(shared):
    shared.reset(0)
    other_pids = {child.pid for child in multiprocessing.active_children()}
    vector = ProcessVector(TapeEnv, 2, INFO)
    first = vector.reset(3)
    assert len(multiprocessing.active_children()) == len(other_pids) + 2
    vector.close()
    assert {child.pid for child in multiprocessing.active_children()} == other_pids
    with pytest.raises(RuntimeError, match="comes first"):
        vector.step(np.array([0, 0]))
    np.testing.assert_array_equal(vector.reset(3), first)  # starts new processes
    del vector
    gc.collect()
    assert {child.pid for child in multiprocessing.active_children()} == other_pids


def test_errors_reach_the_caller(shared):
    shared.reset(0)
    other_pids = {child.pid for child in multiprocessing.active_children()}
    with pytest.raises(UserError, match="this environment cannot be made"):
        ProcessVector(Unmakeable, 1, INFO).reset(0)
    vector = ProcessVector(Failing, 2, INFO)
    vector.reset(0)
    with pytest.raises(ProcessError, match=r"environment 1 \(TapeEnv\) failed: RuntimeError: this action fails"):
        vector.step(np.array([0, 1]))
    vector.reset(0)
    with pytest.raises(ProcessError, match=r"environment 0 \(TapeEnv\): its process died with exit code 7"):
        vector.step(np.array([2, 0]))
    together = ProcessVector(Failing, 4, INFO, workers=2)
    together.reset(0)
    with pytest.raises(ProcessError, match=r"environment 3 \(TapeEnv\) failed: RuntimeError: this action fails"):
        together.step(np.array([0, 0, 0, 1]))
    together.reset(0)
    with pytest.raises(ProcessError, match=r"environments 2 to 3 \(TapeEnv\): its process died with exit code 7"):
        together.step(np.array([0, 0, 2, 0]))
    vector.reset(0)
    os.kill(vector._workers[1].process.pid, signal.SIGKILL)
    with pytest.raises(ProcessError, match=r"environment 1 \(TapeEnv\): its process died with exit code -9"):
        for _ in range(3):
            vector.step(np.array([0, 0]))
    assert {child.pid for child in multiprocessing.active_children()} == other_pids


SCRIPT = """
import signal, sys, numpy as np
from odd_envs import Failing
from masp.environments import processes
from masp.environments.gymnasium_vector import GymVector
from masp.environments.processes import ProcessVector
from tape_env import TapeEnv
processes.SECONDS_TO_END = 0.5
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores SIGINT in background jobs
    vector = ProcessVector(Failing, 2, GymVector(TapeEnv).info)
    stopping = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    vector.reset(0)
    try:
        print(*[worker.process.pid for worker in vector._workers], flush=True)
        while not stopping:
            vector.step(np.array([0, {action}]))
        print("saved", len(vector.snapshot()["lengths"]))
    except KeyboardInterrupt:
        print("stopped")
"""


def run_script(tmp_path, action):
    """Start a process group that steps environments for ever: the parent, and the pids of the environments."""
    (tmp_path / "script.py").write_text(SCRIPT.format(action=action))
    path = os.pathsep.join(path for path in sys.path if path)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    return parent, [int(pid) for pid in parent.stdout.readline().split()]


def wait_for_end(pids):
    for _ in range(200):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc")
def test_processes_exit_when_the_parent_is_killed(tmp_path):
    parent, pids = run_script(tmp_path, action=0)
    assert len(pids) == 2
    parent.kill()
    assert parent.communicate()[0] == ""
    assert wait_for_end(pids)


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc")
def test_a_signal_to_the_group_leaves_the_processes_to_the_parent(tmp_path):
    """As timeout and service managers send it; the parent must still be able to save the environments."""
    parent, pids = run_script(tmp_path, action=0)
    os.killpg(parent.pid, signal.SIGTERM)
    out, err = parent.communicate(timeout=600)
    assert (parent.returncode, out, err) == (0, "saved 2\n", "")
    assert wait_for_end(pids)


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc")
def test_ctrl_c_ends_all_processes_silently(tmp_path):
    parent, pids = run_script(tmp_path, action=3)  # one environment is in a step that never returns
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=600)
    assert (parent.returncode, out, err) == (0, "stopped\n", "")
    assert wait_for_end(pids)
