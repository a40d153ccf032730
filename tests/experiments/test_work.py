"""Run directories that a killed process leaves are made fit to resume."""

import json

import pytest
from tiny_experiment import BASE

from masp.config import replace, to_flat
from masp.experiments.trial import config_of
from masp.experiments.work import make_resumable
from masp.training.run_dir import MetricsWriter, RunDir, read_json


@pytest.fixture
def configs(tmp_path):
    return [replace(config_of(BASE), seed=seed, out=str(tmp_path / f"seed-{seed}")) for seed in (0, 1)]


@pytest.fixture
def runs(configs):
    """Two seeds that train together."""
    runs = [RunDir(config.out) for config in configs]
    for run, config in zip(runs, configs, strict=True):
        run.path.mkdir()
        run.config_file.write_text(json.dumps({**to_flat(config), "out": "elsewhere"}))
        write_rows(run, [100, 200])
    return runs


def write_rows(run, frames, end="\n"):
    run.metrics_jsonl.write_text("\n".join(json.dumps({"frames": f, "eval_return": f / 100}) for f in frames) + end)


def test_a_seed_that_finished_before_the_kill_finishes_again(runs, configs):
    runs[0].summary_file.write_text("{}")
    make_resumable(runs, configs)
    assert not runs[0].summary_file.exists()


def test_a_directory_without_configuration_is_removed(runs, configs):
    for run in runs:
        run.config_file.unlink()
    assert not make_resumable(runs, configs)
    assert not any(run.path.exists() for run in runs)


def test_only_settings_that_change_no_result_are_updated(runs, configs):
    make_resumable(runs, configs)
    saved = read_json(runs[1].config_file)
    assert saved["out"] == configs[1].out
    assert {name: value for name, value in saved.items() if name != "out"} == {
        name: value for name, value in to_flat(configs[1]).items() if name != "out"
    }


def test_rows_after_the_last_checkpoint_are_removed(runs):
    MetricsWriter(runs[0], 100).close()
    assert [row["frames"] for row in runs[0].read_metrics()] == [100]
    assert runs[0].metrics_csv.read_text().splitlines() == ["frames,eval_return", "100,1.0"]


def test_a_new_start_removes_all_rows(runs):
    writer = MetricsWriter(runs[0], None)
    writer.write({"frames": 150, "eval_return": 1.5})
    writer.close()
    assert [row["frames"] for row in runs[0].read_metrics()] == [150]


def test_an_incomplete_row_is_removed(runs):
    write_rows(runs[0], [100, 200, 300], end="")
    text = runs[0].metrics_jsonl.read_text()
    runs[0].metrics_jsonl.write_text(text[:-5])
    MetricsWriter(runs[0], 300).close()
    assert [row["frames"] for row in runs[0].read_metrics()] == [100, 200]
