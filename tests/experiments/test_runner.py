"""Runners that are killed, run twice, or lose workers: the results equal those of an undisturbed run."""

import dataclasses
import json
import os
import signal

import numpy as np
import pytest
from tiny_experiment import BASE, PLAIN, RICH, TINY
from tiny_runs import finish, full_record, half_way, lines, results, wait_for

import masp
from masp import ops
from masp.experiments import claims
from masp.experiments.estimate import START_SECONDS, summary
from masp.experiments.materials import chosen_settings, prepare
from masp.experiments.plan import plan
from masp.experiments.store import FORMAT, Store
from masp.experiments.trial import MacroSet, Sweep, trial_id
from masp.macros.actions import ActionSet
from masp.report.tables import build
from masp.similarity.bundle import load_bundle
from masp.similarity.consensus import consensus
from masp.training import array_file


def test_a_killed_runner_resumes_from_its_checkpoint(expected, new_store, start, tmp_path):
    """Also if the store was moved."""
    store = new_store()
    killed = start(store)
    wait_for(lambda: half_way(store), killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(lines(store)) < 2
    store = store.rename(tmp_path / "moved")
    (run,) = [folder for folder in (store / "work/runs").glob("*/seed-*") if list(folder.glob("checkpoints/*.rows"))]
    created = (run / "actions.json").stat().st_mtime_ns
    finish(start(store))
    assert (run / "actions.json").stat().st_mtime_ns == created  # resumed, not started again
    assert results(store) == expected


def test_a_checkpoint_of_another_version_starts_again(expected, new_store, start):
    """The settings are the same, but the arrays differ."""
    store = new_store()
    killed = start(store)
    wait_for(lambda: half_way(store), killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    for checkpoint in store.glob("work/runs/*/seed-*/checkpoints/checkpoint-*.safetensors"):
        array_file.save(
            checkpoint, {".agent.tick": np.array(50, np.int32)}, {"format": "masp-checkpoint", "version": 1}
        )
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
    workers = wait_for(lambda: [message["pid"] for message in holders(store)], runner)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not any(claims._started(worker) for worker in workers))


def holders(store):
    folders = (store / "work/claims").glob("*")
    return [message for message in map(claims.holder, folders) if message is not None]


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
    first = {column: records[trial_id(trial), trial.seeds[0]] for column, trial in cells.items()}
    _check_provenance(first["masp"])
    _check_transfer(store_path, records, cells)
    np.testing.assert_array_equal(
        similarity_of(store_path, first["consensus"]), consensus(similarity_of(store_path, first["masp"]))
    )  # its seed 1 uses the first seed of the source
    _check_truth(store_path, first["truth"])
    _check_noise(store_path, [records[trial_id(cells["noise"]), seed] for seed in (0, 1)])
    data = store.read_plan("tiny", "smoke")
    table = build(data, records)
    means = {row: {column: cell.mean for column, cell in row_cells.items()} for row, row_cells in table.rows}
    assert means["broken",] == {"masp": None, "transfer": None}
    assert means["bandit",]["masp"] == np.mean([records[trial_id(cells["masp"]), seed]["success"] for seed in (0, 1)])


def test_a_sweep_chooses_by_its_own_seeds(tmp_path):
    """The reported seeds would choose otherwise; the first of two equal candidates wins."""
    store = Store(tmp_path)
    trial = dataclasses.replace(BASE, sweep=Sweep((0.1, 0.2, 0.3), (0.01, 0.02), seeds=(100, 101)))
    means = [0.1, 0.7, 0.2, 0.7, 0.3, 0.4]
    for candidate, mean in zip(trial.candidates(), means, strict=True):
        name = trial_id(candidate)
        store.append([full_record(name, seed, success=mean, **{"return": -mean}) for seed in (100, 101)])
        store.append([full_record(name, seed, success=1 - mean) for seed in (0, 1)])
    assert chosen_settings(trial, store) == {"penalty_weight": 0.1, "meta_learning_rate": 0.02}
    assert chosen_settings(BASE, store) == {}


def test_a_sweep_may_be_judged_by_the_whole_run(tmp_path):
    """The second candidate ends as well as the first and learns sooner."""
    store = Store(tmp_path)
    trial = dataclasses.replace(BASE, sweep=Sweep((0.1, 0.2), seeds=(100,)))
    for candidate, curve in zip(trial.candidates(), ([0.0, 0.9], [0.5, 0.9]), strict=True):
        store.append([full_record(trial_id(candidate), 100, success=0.9, curve_success=curve)])
    assert chosen_settings(trial, store) == {"penalty_weight": 0.1}
    by_run = dataclasses.replace(trial, sweep=Sweep((0.1, 0.2), seeds=(100,), judged="run"))
    assert chosen_settings(by_run, store) == {"penalty_weight": 0.2}


def similarity_of(store_path, record):
    return load_bundle(store_path / record["run"] / "similarity.safetensors").similarity


def _check_provenance(record):
    assert record["format"] == FORMAT == 2
    assert record["version"] == record["versions"]["masp"] == masp.__version__
    assert record["kernels"] == ops.kernels_used()


def _check_transfer(store_path, records, cells):
    """Each seed keeps the similarity of its own source unchanged."""
    source, target = trial_id(cells["masp"]), trial_id(cells["transfer"])
    transferred = [similarity_of(store_path, records[target, seed]) for seed in (0, 1)]
    learned = [similarity_of(store_path, records[source, seed]) for seed in (0, 1)]
    np.testing.assert_array_equal(transferred, learned)
    assert not np.array_equal(learned[0], learned[1])
    kept = [load_bundle(store_path / "bundles" / f"{source}-{seed}.safetensors").similarity for seed in (0, 1)]
    np.testing.assert_array_equal(kept, learned)


def _check_truth(store_path, record):
    actions = json.loads((store_path / record["run"] / "actions.json").read_text())
    groups = np.array([0, 1, 2, *(macro["actions"][0] for macro in actions["macros"])])
    np.testing.assert_array_equal(similarity_of(store_path, record), groups[:, None] == groups[None])


def _check_noise(store_path, records):
    """Two mined macros beside three primitives, in a file per seed that the store keeps."""
    for record in records:
        assert record["actions"] == 5 and record["k"] == 2 and record["noise"] == 0.5
        assert record["config"]["macros"].endswith(f"-{record['seed']}.json")
        assert (store_path / record["config"]["macros"]).exists()
        assert record["seeds_together"] == [0, 1]
    (play,) = (store_path / "plays").iterdir()  # kept, so that other macros can be mined from it later
    assert {action for episode in json.loads(play.read_text()) for action in episode["actions"]} <= {0, 1, 2}


def test_the_summary_of_a_plan_counts_what_is_left(new_store):
    store = Store(new_store())
    before = summary(plan(TINY, "smoke"), store, 1)
    assert (before["trials"], before["runs"], before["runs_left"], before["frames"]) == (1, 2, 2, 4_000)
    assert before["core_seconds_assumed"] == before["core_seconds_left"]
    store.append([full_record(trial_id(PLAIN), 1)])
    after = summary(plan(TINY, "smoke"), store, 2)
    assert (after["runs_left"], after["frames_left"]) == (1, 2_000)
    assert after["core_seconds_left"] == pytest.approx(START_SECONDS + 20)  # at the speed of the finished one
    assert after["seconds_left"] == pytest.approx(START_SECONDS + 20)
    assert after["core_seconds_assumed"] == 0


def test_noise_draws_other_macros_of_the_same_lengths_for_every_seed(tmp_path):
    """So that seeds train in one program and intervals over seeds contain the draw of macros."""
    store = Store(tmp_path)
    noisy = dataclasses.replace(
        BASE, env="planted-grid", env_options=("sequences=12",), control="macros", macros=MacroSet(noise=0.75)
    )
    files = [prepare(noisy, seed, store)["macros"] for seed in (0, 1)]
    assert prepare(noisy, 1, store)["macros"] == files[1]
    sets = [ActionSet.load(file) for file in files]
    own = ActionSet.load(prepare(dataclasses.replace(noisy, macros=MacroSet()), 0, store)["macros"])
    assert sets[0].sequences() != sets[1].sequences()
    for actions in sets:
        assert actions.lengths.tolist() == own.lengths.tolist()
        assert actions.sequences() != own.sequences()
