"""Runners for real: killed, doubled, with workers that die. The finished results are those of an undisturbed run."""

import json
import os
import signal
import time

import numpy as np
import pytest
from tiny_experiment import PLAIN, RICH, TINY

from masp.analysis.tables import build
from masp.bundle import load_bundle
from masp.experiments import claims
from masp.experiments.estimate import START_SECONDS
from masp.experiments.identity import trial_id
from masp.experiments.plan import plan
from masp.experiments.reproduce import summary
from masp.experiments.store import Store

KIND = {"env": "planted-bandit", "variant": "macros", "k": None}
PATIENCE = 300
"""Seconds until a test that waits gives up."""


def results(store_path):
    """What must not depend on how a run went: figures, curves and similarities."""
    store = Store(store_path)
    records = store.records()
    assert store.problems == {}
    kept = ("return", "success", "curve_frames", "curve_return", "frames", "actions", "config_hash", "chosen")
    figures = {key: {name: record[name] for name in kept} for key, record in sorted(records.items())}
    similarities = {
        key: load_bundle(store_path / record["run"] / "similarity.safetensors") for key, record in records.items()
    }
    return figures, {key: bundle.similarity.tolist() for key, bundle in similarities.items()}


def lines(store_path):
    return [line for file in (store_path / "records").glob("*.jsonl") for line in file.read_text().splitlines()]


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def finish(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return out


def half_way(store_path):
    """Process numbers of those that train a unit which has a checkpoint."""
    found = []
    for folder in (store_path / "work" / "runs").glob("*"):
        said = claims.holder(store_path / "work" / "claims" / folder.name)
        if said and list(folder.glob("seed-*/checkpoint.safetensors")):
            found.append(said["pid"])
    return found


@pytest.fixture(scope="module")
def expected(new_store, start):
    """The results of a run that nothing happened to."""
    store = new_store()
    finish(start(store))
    before = lines(store)
    finish(start(store))
    assert lines(store) == before  # finished trials are skipped
    return results(store)


def test_a_killed_runner_goes_on_from_its_checkpoint(expected, new_store, start):
    store = new_store()
    killed = start(store)
    wait_for(lambda: half_way(store))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(lines(store)) < 3
    (run,) = [
        folder for folder in (store / "work/runs").glob("*/seed-*") if (folder / "checkpoint.safetensors").exists()
    ]
    made = (run / "actions.json").stat().st_mtime_ns
    finish(start(store))
    assert (run / "actions.json").stat().st_mtime_ns == made  # resumed, not begun anew
    assert results(store) == expected


def test_two_runners_share_the_work(expected, new_store, start):
    store = new_store()
    for runner in [start(store), start(store)]:
        finish(runner)
    assert len(lines(store)) == 3  # none lost, none repeated
    assert len(list((store / "records").glob("*"))) == 2  # both had a share
    assert results(store) == expected


def test_a_killed_worker_process_is_replaced(expected, new_store, start):
    store = new_store()
    runner = start(store, "--jobs", "2")
    (victim, *_) = wait_for(lambda: half_way(store))
    assert victim != runner.pid
    os.kill(victim, signal.SIGKILL)
    finish(runner)
    assert results(store) == expected


def test_workers_end_with_their_runner(new_store, start):
    store = new_store()
    runner = start(store, "--jobs", "2")
    workers = wait_for(lambda: [said["pid"] for said in holders(store)])
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
        "not run: a trial that it needs failed",
        "planted-bandit has no option 'nonsense'; it has contexts, groups, copies, pay_good, pay_bad, order_seed",
    ]
    store = Store(store_path)
    records = store.records()
    cells = {cell.column: cell.trial for cell in RICH.cells("smoke") if cell.row == ("bandit",)}
    found = {column: records[trial_id(trial), 0] for column, trial in cells.items()}
    _check_transfer(store_path, records, found, cells)
    _check_truth(store_path, found["truth"])
    _check_choice(records, found["swept"], cells["swept"])
    _check_noise(store_path, found["noise"])
    data = store.read_plan("tiny", "smoke")
    table = build(data, records)
    shown = {row: {column: cell.mean for column, cell in row_cells.items()} for row, row_cells in table.rows}
    assert shown["broken",] == {"masp": None, "transfer": None}
    assert shown["bandit",]["masp"] == np.mean([records[trial_id(cells["masp"]), seed]["success"] for seed in (0, 1)])


def similarity_of(store_path, record):
    return load_bundle(store_path / record["run"] / "similarity.safetensors").similarity


def _check_transfer(store_path, records, found, cells):
    """Each seed keeps the similarity of its own source as it was."""
    source, target = trial_id(cells["masp"]), trial_id(cells["transfer"])
    taken = [similarity_of(store_path, records[target, seed]) for seed in (0, 1)]
    given = [similarity_of(store_path, records[source, seed]) for seed in (0, 1)]
    np.testing.assert_array_equal(taken, given)
    assert not np.array_equal(given[0], given[1])


def _check_truth(store_path, record):
    actions = json.loads((store_path / record["run"] / "actions.json").read_text())
    groups = np.array([0, 1, 2, *(macro["actions"][0] for macro in actions["macros"])])
    np.testing.assert_array_equal(similarity_of(store_path, record), groups[:, None] == groups[None])


def _check_choice(records, record, trial):
    """The better candidate on the sweep's own seed."""
    scores = [records[trial_id(candidate), 100]["success"] for candidate in trial.candidates()]
    assert record["chosen"] == {"penalty_weight": (0.01, 0.1)[int(np.argmax(scores))]}
    assert record["config"]["penalty_weight"] == record["chosen"]["penalty_weight"]


def _check_noise(store_path, record):
    """Two mined macros beside three primitives, in a file that the store keeps."""
    assert record["actions"] == 5 and record["k"] == 2 and record["noise"] == 0.5
    assert (store_path / record["config"]["macros"]).exists()


def test_a_store_that_moved_goes_on(expected, new_store, start, tmp_path):
    store = new_store()
    killed = start(store)
    wait_for(lambda: half_way(store))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    moved = store.rename(tmp_path / "moved")
    finish(start(moved))
    assert results(moved) == expected


def test_the_plan_says_what_is_left(new_store):
    store = Store(new_store())
    before = summary(plan(TINY, "smoke"), store, 1)
    assert (before["trials"], before["runs"], before["runs_left"], before["frames"]) == (1, 3, 3, 24_000)
    store.append([{"trial": trial_id(PLAIN), "seed": 1, "frames_per_second": 100.0, "seconds": 1.0, **KIND}])
    after = summary(plan(TINY, "smoke"), store, 2)
    assert (after["runs_left"], after["frames_left"]) == (2, 16_000)
    assert after["core_seconds_left"] == pytest.approx(2 * (START_SECONDS + 80))  # as fast as the one that is there
    assert after["seconds_left"] == pytest.approx(START_SECONDS + 80)
