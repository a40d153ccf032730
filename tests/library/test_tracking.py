"""Trackers log the numbers of metrics.jsonl, which are read back from their files here."""

from __future__ import annotations

import importlib.util
import math
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest

import masp
from masp import UserError
from masp.cli.main import main
from masp.config import from_flat
from masp.training.tracking import tag_of, tagged
from masp.training.train import train_seeds

INSTALLED = {package: importlib.util.find_spec(package) is not None for package in ("wandb", "mlflow")}


def test_tags_are_grouped():
    columns = {
        "eval_return": "evaluation/return",
        "overestimation": "evaluation/overestimation",
        "return": "episodes/return",
        "similarity_mean": "similarity/mean",
        "frames_per_second": "time/frames_per_second",
        "td_loss": "learning/td_loss",
    }
    assert {column: tag_of(column) for column in columns} == columns
    row = {"frames": 9, "return": None, "success": 1, "decisions": [1, 2], "eval_return": 0.5}
    assert tagged(row) == {"episodes/success": 1.0, "evaluation/return": 0.5}


def expected(path) -> dict[tuple[str, int], float]:
    """(tag, frames) to value, from the metrics of a run."""
    rows = masp.load_run(path).metrics
    return {(tag, row["frames"]): value for row in rows for tag, value in tagged(row).items()}


def tensorboard_events(folder) -> dict[tuple[str, int], float]:
    """(tag, step) to value, from the records of all event files in a folder."""
    from tensorboardX.proto.event_pb2 import Event

    values = {}
    for file in folder.glob("events*"):
        data, start = file.read_bytes(), 0
        while start < len(data):
            (length,) = struct.unpack_from("<Q", data, start)
            event = Event.FromString(data[start + 12 : start + 12 + length])
            values.update({(value.tag, event.step): value.simple_value for value in event.summary.value})
            start += 12 + length + 4
    return values


def wandb_records(data: bytes):
    """The records of a .wandb file: after a header of 7 bytes, a log in the format of LevelDB."""
    start, record = 7, b""
    while start + 7 <= len(data):
        if (left := 32768 - start % 32768) < 7:  # what remains of a block is blank
            start += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, start)
        record += data[start + 7 : start + 7 + length]
        start += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield record
            record = b""


def assert_same(values, metrics):
    assert values.keys() == metrics.keys() and metrics
    for name, value in metrics.items():
        assert math.isclose(values[name], value, rel_tol=1e-6, abs_tol=1e-30), name


@pytest.fixture(scope="module")
def tracked(tiny, tmp_path_factory):
    """A folder with two runs that trained in one program, tracked by everything that is installed."""
    folder = tmp_path_factory.mktemp("tracked")
    settings = tiny | {"env": "own_parts:make_jax_corridor", "out": str(folder / "runs")}
    trackers = [masp.TensorBoard(folder / "logs")]
    trackers += [masp.WandB(mode="offline")] if INSTALLED["wandb"] else []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE"):
            patch.setenv(name, "")
            patch.delenv(name)
        trackers += [masp.MLflow()] if INSTALLED["mlflow"] else []
        train_seeds(from_flat(settings), [0, 1], callbacks=trackers)
        yield folder


@pytest.mark.parametrize("seed", [0, 1])
def test_tensorboard_has_the_numbers_of_every_run(tracked, seed):
    run = tracked / "runs" / f"seed-{seed}"
    assert_same(tensorboard_events(tracked / "logs" / "runs" / run.name), expected(run))


@pytest.mark.skipif(not INSTALLED["wandb"], reason="needs the package wandb: make extras")
@pytest.mark.parametrize("seed", [0, 1])
def test_wandb_offline_has_the_numbers_of_every_run(tracked, seed):
    from wandb.proto import wandb_internal_pb2

    run = tracked / "runs" / f"seed-{seed}"
    (file,) = (run / "wandb").glob("offline-run-*/run-*.wandb")
    records = [wandb_internal_pb2.Record.FromString(data) for data in wandb_records(file.read_bytes())]
    values = {}
    for record in records:
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            if not name.startswith("_"):
                values[name, record.history.step.num] = float(item.value_json)
    assert_same(values, expected(run))
    assert next(record.run.display_name for record in records if record.HasField("run")) == f"runs/seed-{seed}"
    assert [record.exit.exit_code for record in records if record.HasField("exit")] == [0]


@pytest.mark.skipif(not INSTALLED["mlflow"], reason="needs the package mlflow-skinny: make extras")
@pytest.mark.parametrize("seed", [0, 1])
def test_mlflow_has_the_numbers_of_every_run(tracked, seed):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tracked / "mlruns").as_uri())
    runs = client.search_runs([client.get_experiment_by_name("masp").experiment_id])
    (stored,) = [run for run in runs if run.info.run_name == f"runs/seed-{seed}"]
    assert stored.info.status == "FINISHED"
    assert stored.data.params["seed"] == str(seed)
    values = {}
    for tag in stored.data.metrics:
        values |= {(tag, metric.step): metric.value for metric in client.get_metric_history(stored.info.run_id, tag)}
    assert_same(values, expected(tracked / "runs" / f"seed-{seed}"))


def test_the_command_line_tracks(tmp_path):
    numbers = {"--frames": 120, "--min-replay-steps": 40, "--num-envs": 2, "--eval-episodes": 2}
    arguments = ["--variant", "rainbow", *(str(part) for pair in numbers.items() for part in pair)]
    out = tmp_path / "run"
    command = ["train", "own_parts:make_corridor", "--track", "tensorboard", *arguments, "--out", str(out)]
    assert main(command) == 0
    assert_same(tensorboard_events(out / "tensorboard"), expected(out))


@pytest.mark.parametrize(("tracker", "package"), [("TensorBoard", "tensorboardX"), ("WandB", "wandb")])
def test_a_missing_package_gets_one_line_with_the_command(tracker, package, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=rf"{tracker} needs the package {package}: pip install 'masp-rl\[\w+\]'"):
        getattr(masp, tracker)()


def test_a_run_that_fails_is_closed_as_failed(tiny, tmp_path, monkeypatch):
    ended = []

    class Tracked:
        log = staticmethod(lambda numbers, step: 1 / 0)
        finish = staticmethod(lambda exit_code: ended.append(exit_code))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: Tracked, __spec__=True))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    tracker, run = masp.WandB(), SimpleNamespace(path=tmp_path, config=from_flat({"env": "x"}))
    tracker.on_start(run)
    with pytest.raises(ZeroDivisionError):
        tracker.on_row(run, {"frames": 1})
    tracker.close()
    tracker.close()
    assert ended == [1]


def test_a_tracker_that_refuses_to_start_gets_one_line(tmp_path, monkeypatch):
    def init(**options):
        raise RuntimeError("No API key configured.\n Use `wandb login`")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, __spec__=True))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    with pytest.raises(UserError) as caught:
        masp.WandB().on_start(SimpleNamespace(path=tmp_path, config=from_flat({"env": "x"})))
    assert str(caught.value) == (
        f"{tmp_path}: WandB cannot start: No API key configured. Use `wandb login`; WANDB_MODE=offline needs no account"
    )


def test_importing_the_trackers_imports_none_of_their_packages():
    code = "import sys, masp; masp.WandB, masp.MLflow; print({'wandb', 'mlflow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_sweeps_track_every_run(tmp_path):
    numbers = {"--frames": 120, "--min-replay-steps": 40, "--num-envs": 2, "--eval-episodes": 2, "--seeds": 1}
    arguments = [str(part) for pair in numbers.items() for part in pair]
    vary = ["--variant", "macros", "--vary", "hidden=8,9"]  # two programs: the tracker is closed between them
    command = ["sweep", "own_parts:make_corridor", *vary, *arguments, "--track", "tensorboard"]
    assert main([*command, "--out", str(tmp_path / "sweep")]) == 0
    for hidden in (8, 9):
        run = tmp_path / "sweep" / f"hidden={hidden}" / "seed-0"
        assert_same(tensorboard_events(run / "tensorboard"), expected(run))
