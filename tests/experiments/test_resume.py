"""What a killed process leaves behind: usable or not, never a mixture."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_experiment import BASE

from masp.config import replace, to_flat
from masp.experiments.identity import config_of
from masp.experiments.resume import all_finished, make_resumable
from masp.training.run_dir import MetricsWriter, RunDir, read_json


@pytest.fixture
def configs(tmp_path):
    return [replace(config_of(BASE), seed=seed, out=str(tmp_path / f"seed-{seed}")) for seed in (0, 1)]


@pytest.fixture
def runs(configs):
    """Two seeds that train together, both with the checkpoint of tick 50."""
    found = [RunDir(config.out) for config in configs]
    for run, config in zip(found, configs, strict=True):
        run.path.mkdir()
        run.config_file.write_text(json.dumps({**to_flat(config), "out": "elsewhere"}))
        checkpoint(run, 50)
        write_rows(run, [100, 200])
    return found


def checkpoint(run, tick):
    save_file({".agent.tick": np.array(tick, np.int32)}, run.checkpoint_file)


def write_rows(run, frames, end="\n"):
    run.metrics_jsonl.write_text("\n".join(json.dumps({"frames": f, "eval_return": f / 100}) for f in frames) + end)


def test_checkpoints_of_the_same_tick_are_used(runs, configs):
    assert make_resumable(runs, configs)
    assert all(run.checkpoint_file.exists() for run in runs)


@pytest.mark.parametrize("how", ["older", "missing", "broken"])
def test_checkpoints_that_do_not_belong_together_are_dropped(runs, configs, how):
    """Killed while the seeds' checkpoints were written one after the other."""
    if how == "older":
        checkpoint(runs[1], 25)
    elif how == "missing":
        runs[1].checkpoint_file.unlink()
    else:
        runs[1].checkpoint_file.write_bytes(b"torn")
    assert make_resumable(runs, configs)
    assert not any(run.checkpoint_file.exists() for run in runs)


def test_a_seed_that_finished_before_the_kill_finishes_again(runs, configs):
    runs[0].summary_file.write_text("{}")
    assert not all_finished(runs)
    make_resumable(runs, configs)
    assert not runs[0].summary_file.exists() and runs[0].checkpoint_file.exists()


def test_a_directory_without_configuration_is_removed(runs, configs):
    for run in runs:
        run.config_file.unlink()
    assert not make_resumable(runs, configs)
    assert not any(run.path.exists() for run in runs)


def test_folders_may_have_changed_settings_not(runs, configs):
    make_resumable(runs, configs)
    saved = read_json(runs[1].config_file)
    assert saved["out"] == configs[1].out
    assert {name: value for name, value in saved.items() if name != "out"} == {
        name: value for name, value in to_flat(configs[1]).items() if name != "out"
    }


def test_rows_after_the_last_checkpoint_go_and_the_others_stay(runs):
    """Whoever is killed while rows are dropped has either all of them or those that stay."""
    MetricsWriter(runs[0], 100, tensorboard=False).close()
    assert [row["frames"] for row in runs[0].read_metrics()] == [100]
    assert runs[0].metrics_csv.read_text().splitlines() == ["frames,eval_return", "100,1.0"]


def test_a_new_start_keeps_no_row_of_an_abandoned_attempt(runs):
    writer = MetricsWriter(runs[0], None, tensorboard=False)
    writer.write({"frames": 150, "eval_return": 1.5})
    writer.close()
    assert [row["frames"] for row in runs[0].read_metrics()] == [150]


def test_a_torn_row_is_dropped(runs):
    write_rows(runs[0], [100, 200, 300], end="")
    text = runs[0].metrics_jsonl.read_text()
    runs[0].metrics_jsonl.write_text(text[:-5])
    MetricsWriter(runs[0], 300, tensorboard=False).close()
    assert [row["frames"] for row in runs[0].read_metrics()] == [100, 200]
