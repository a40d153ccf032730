"""Runners for real: killed, doubled, with workers that die. The finished results are those of an undisturbed run."""

import dataclasses
import json
import os
import signal

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_experiment import BASE, PLAIN, RICH, TINY
from tiny_runs import finish, half_way, lines, results, wait_for

from masp.experiments import claims
from masp.experiments.estimate import START_SECONDS
from masp.experiments.identity import trial_id
from masp.experiments.materials import chosen_settings
from masp.experiments.plan import plan
from masp.experiments.reproduce import summary
from masp.experiments.store import Store
from masp.experiments.trial import Sweep
from masp.report.tables import build
from masp.similarity.bundle import load_bundle
from masp.similarity.consensus import consensus

KIND = {"env": "planted-bandit", "variant": "macros", "k": None}


def test_a_killed_runner_goes_on_from_its_checkpoint(expected, new_store, start, tmp_path):
    """Also when the store was moved meanwhile."""
    store = new_store()
    killed = start(store)
    wait_for(lambda: half_way(store), killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(lines(store)) < 2
    store = store.rename(tmp_path / "moved")
    (run,) = [
        folder for folder in (store / "work/runs").glob("*/seed-*") if (folder / "checkpoint.safetensors").exists()
    ]
    made = (run / "actions.json").stat().st_mtime_ns
    finish(start(store))
    assert (run / "actions.json").stat().st_mtime_ns == made  # resumed, not begun anew
    assert results(store) == expected


def test_a_checkpoint_of_another_version_is_begun_anew(expected, new_store, start):
    """The settings are the same, the arrays are not."""
    store = new_store()
    killed = start(store)
    wait_for(lambda: half_way(store), killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (checkpoint,) = store.glob("work/runs/*/seed-*/checkpoint.safetensors")
    save_file({".agent.tick": np.array(50, np.int32)}, checkpoint)
    finish(start(store))
    assert results(store) == expected


def test_two_runners_share_the_work(expected, new_store, start):
    store = new_store()
    for runner in [start(store), start(store)]:
        finish(runner)
    assert len(lines(store)) == 2  # none lost, none repeated
    assert len(list((store / "records").glob("*"))) == 2  # both had a share
    assert results(store) == expected


def test_a_killed_worker_process_is_replaced(expected, new_store, start):
    store = new_store()
    runner = start(store, "--jobs", "2")
    (victim, *_) = wait_for(lambda: half_way(store), runner)
    assert victim != runner.pid
    os.kill(victim, signal.SIGKILL)
    finish(runner)
    assert results(store) == expected


def test_workers_end_with_their_runner(new_store, start):
    store = new_store()
    runner = start(store, "--jobs", "2")
    workers = wait_for(lambda: [said["pid"] for said in holders(store)], runner)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not any(claims._started(worker) for worker in workers))


def holders(store):
    folders = (store / "work/claims").glob("*")
    return [said for said in map(claims.holder, folders) if said is not None]


def test_all_kinds_of_trials(new_store, start):
    store_path = new_store()
    failed = json.loads(finish(start(store_path, "--rich"), code=1))
    assert sorted(reason for reason in failed.values()) == [
        "not run: a trial that it needs failed",
        "planted-bandit has no option 'nonsense'; it has contexts, groups, copies, pay_good, pay_bad, order_seed, "
        "uneven",
    ]
    store = Store(store_path)
    records = store.records()
    cells = {cell.column: cell.trial for cell in RICH.cells("smoke") if cell.row == ("bandit",)}
    found = {column: records[trial_id(trial), trial.seeds[0]] for column, trial in cells.items()}
    _check_transfer(store_path, records, found, cells)
    np.testing.assert_array_equal(
        similarity_of(store_path, found["consensus"]), consensus(similarity_of(store_path, found["masp"]))
    )  # seed 1 takes from the first seed of the source
    _check_truth(store_path, found["truth"])
    _check_noise(store_path, found["noise"])
    data = store.read_plan("tiny", "smoke")
    table = build(data, records)
    shown = {row: {column: cell.mean for column, cell in row_cells.items()} for row, row_cells in table.rows}
    assert shown["broken",] == {"masp": None, "transfer": None}
    assert shown["bandit",]["masp"] == np.mean([records[trial_id(cells["masp"]), seed]["success"] for seed in (0, 1)])


def test_a_sweep_chooses_by_its_own_seeds(tmp_path):
    """The reported seeds would choose otherwise; the first of two equal candidates wins."""
    store = Store(tmp_path)
    trial = dataclasses.replace(BASE, sweep=Sweep((0.1, 0.2, 0.3), (0.01, 0.02), seeds=(100, 101)))
    means = [0.1, 0.7, 0.2, 0.7, 0.3, 0.4]
    for candidate, mean in zip(trial.candidates(), means, strict=True):
        found = trial_id(candidate)
        store.append([{"trial": found, "seed": seed, "success": mean, "return": -mean} for seed in (100, 101)])
        store.append([{"trial": found, "seed": seed, "success": 1 - mean, "return": 0.0} for seed in (0, 1)])
    assert chosen_settings(trial, store) == {"penalty_weight": 0.1, "meta_learning_rate": 0.02}
    assert chosen_settings(BASE, store) == {}


def test_a_sweep_may_be_judged_by_the_whole_run(tmp_path):
    """The second candidate ends as well as the first and learns sooner."""
    store = Store(tmp_path)
    trial = dataclasses.replace(BASE, sweep=Sweep((0.1, 0.2), seeds=(100,)))
    for candidate, curve in zip(trial.candidates(), ([0.0, 0.9], [0.5, 0.9]), strict=True):
        record = {"trial": trial_id(candidate), "seed": 100, "success": 0.9, "return": 0.0, "curve_success": curve}
        store.append([record])
    assert chosen_settings(trial, store) == {"penalty_weight": 0.1}
    by_run = dataclasses.replace(trial, sweep=Sweep((0.1, 0.2), seeds=(100,), judged="run"))
    assert chosen_settings(by_run, store) == {"penalty_weight": 0.2}


def similarity_of(store_path, record):
    return load_bundle(store_path / record["run"] / "similarity.safetensors").similarity


def _check_transfer(store_path, records, found, cells):
    """Each seed keeps the similarity of its own source as it was."""
    source, target = trial_id(cells["masp"]), trial_id(cells["transfer"])
    taken = [similarity_of(store_path, records[target, seed]) for seed in (0, 1)]
    given = [similarity_of(store_path, records[source, seed]) for seed in (0, 1)]
    np.testing.assert_array_equal(taken, given)
    assert not np.array_equal(given[0], given[1])
    kept = [load_bundle(store_path / "bundles" / f"{source}-{seed}.safetensors").similarity for seed in (0, 1)]
    np.testing.assert_array_equal(kept, given)


def _check_truth(store_path, record):
    actions = json.loads((store_path / record["run"] / "actions.json").read_text())
    groups = np.array([0, 1, 2, *(macro["actions"][0] for macro in actions["macros"])])
    np.testing.assert_array_equal(similarity_of(store_path, record), groups[:, None] == groups[None])


def _check_noise(store_path, record):
    """Two mined macros beside three primitives, in a file that the store keeps."""
    assert record["actions"] == 5 and record["k"] == 2 and record["noise"] == 0.5
    assert (store_path / record["config"]["macros"]).exists()
    (play,) = (store_path / "plays").iterdir()  # kept, so that other macros can be mined from it later
    assert {action for episode in json.loads(play.read_text()) for action in episode} <= {0, 1, 2}


def test_the_plan_says_what_is_left(new_store):
    store = Store(new_store())
    before = summary(plan(TINY, "smoke"), store, 1)
    assert (before["trials"], before["runs"], before["runs_left"], before["frames"]) == (1, 2, 2, 4_000)
    store.append([{"trial": trial_id(PLAIN), "seed": 1, "frames_per_second": 100.0, "seconds": 1.0, **KIND}])
    after = summary(plan(TINY, "smoke"), store, 2)
    assert (after["runs_left"], after["frames_left"]) == (1, 2_000)
    assert after["core_seconds_left"] == pytest.approx(START_SECONDS + 20)  # as fast as the one that is there
    assert after["seconds_left"] == pytest.approx(START_SECONDS + 20)
