"""Trackers log the numbers of metrics.jsonl, which are read back from their files here."""

from __future__ import annotations

import math
import struct
import sys

import pytest

import masp
from masp import UserError
from masp.cli.main import main
from masp.config import from_flat
from masp.training.tracking import tag_of, tagged
from masp.training.train import train_seeds
from own_parts import make_corridor, make_jax_corridor


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


def assert_same(values, metrics):
    assert values.keys() == metrics.keys() and metrics
    for name, value in metrics.items():
        assert math.isclose(values[name], value, rel_tol=1e-6, abs_tol=1e-30), name


def test_tensorboard_has_the_numbers_of_the_run(tiny, tmp_path):
    run = masp.train(make_corridor, **tiny, callbacks=[masp.TensorBoard()], out=tmp_path / "run")
    assert_same(tensorboard_events(run.path / "tensorboard"), expected(run.path))


def test_runs_that_train_together_are_logged_separately(tiny, tmp_path):
    settings = tiny | {"env": "own_parts:make_jax_corridor", "variant": "rainbow", "out": str(tmp_path / "runs")}
    assert make_jax_corridor().info.env_id == "jax-corridor"
    results = train_seeds(from_flat(settings), [0, 1], callbacks=[masp.TensorBoard(tmp_path / "logs")])
    for seed, result in enumerate(results):
        assert_same(tensorboard_events(tmp_path / "logs" / f"seed-{seed}"), expected(result.run_dir))


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


def test_wandb_offline_has_the_numbers_of_the_run(tiny, tmp_path):
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    run = masp.train(make_corridor, **tiny, callbacks=[masp.WandB(mode="offline")], out=tmp_path / "run")
    (file,) = (run.path / "wandb").glob("offline-run-*/run-*.wandb")
    store, values = DataStore(), {}
    store.open_for_scan(str(file))
    while data := store.scan_data():
        record = wandb_internal_pb2.Record.FromString(data)
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            if not name.startswith("_"):
                values[name, record.history.step.num] = float(item.value_json)
    assert_same(values, expected(run.path))


def test_mlflow_has_the_numbers_of_the_run(tiny, tmp_path):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "mlruns").as_uri()
    run = masp.train(make_corridor, **tiny, callbacks=[masp.MLflow(uri=uri)], out=tmp_path / "run")
    client = MlflowClient(tracking_uri=uri)
    (stored,) = client.search_runs([client.get_experiment_by_name("masp").experiment_id])
    assert stored.info.status == "FINISHED"
    values = {}
    for tag in stored.data.metrics:
        values |= {(tag, metric.step): metric.value for metric in client.get_metric_history(stored.info.run_id, tag)}
    assert_same(values, expected(run.path))


def test_importing_the_trackers_imports_none_of_their_packages():
    assert masp.TensorBoard is not None
    assert "wandb" not in sys.modules and "mlflow" not in sys.modules
