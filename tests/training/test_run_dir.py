"""Opening the directory of a run: who may write, through which names, and what is written down about it."""

from __future__ import annotations

import json

import pytest

from masp.config import replace
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.training.run_dir import MetricsWriter, RunDir

ACTIONS = ActionSet(3, [(0, 1), (2, 2)])


@pytest.fixture
def config(tiny_config, tmp_path):
    return replace(tiny_config, variant="macros", out=str(tmp_path / "run")).resolved()


@pytest.fixture
def run(config):
    """A run that was begun and left."""
    run = RunDir(config.out)
    run.open(config, ACTIONS, resume=False)
    run.close()
    return run


def test_every_start_is_written_down(run, config):
    run.open(config, ACTIONS, resume=True)
    run.close()
    starts = [json.loads(line) for line in run.starts_file.read_text().splitlines()]
    assert len(starts) == 2
    assert {"time", "host", "process", "commit", "versions", "kernels"} == set(starts[0])


def test_resuming_with_other_macros_is_refused(run, config):
    with pytest.raises(UserError, match="the run has other macros than the environment's own macros now"):
        run.open(config, ActionSet(3, [(0, 1), (2, 1)]), resume=True)
    run.close()


def test_a_run_directory_that_was_moved_goes_on(run, config, tmp_path):
    moved = run.path.rename(tmp_path / "elsewhere")
    there = RunDir(moved)
    there.open(replace(config, out=str(moved)), ACTIONS, resume=True)
    there.close()
    assert there.read_config().out == str(moved)


def test_settings_that_changed_are_named(run, config):
    with pytest.raises(UserError, match=r"other settings \(seed 0, now 7; hidden \d+, now 3\); give the same"):
        run.open(replace(config, seed=7, hidden=3), ACTIONS, resume=True)
    run.close()


@pytest.mark.parametrize("text", ["[1]", '"text"', '{"return": 1}', '{"frames": "many"}', "{"])
def test_summary_of_others_is_checked(text, run):
    run.summary_file.write_text(text)
    with pytest.raises(UserError, match=r"summary\.json"):
        run.read_summary()


def test_links_in_a_run_directory_are_not_followed(run, config, tmp_path):
    other = tmp_path / "other"
    other.write_text("somebody else's")
    run.metrics_csv.symlink_to(other)
    run.metrics_jsonl.symlink_to(other)
    writer = MetricsWriter(run, None)
    writer.write({"frames": 1})
    writer.close()
    for name in (".lock", "starts.jsonl"):
        (run.path / name).unlink()
        (run.path / name).symlink_to(other)
        with pytest.raises(OSError, match=r"symbolic links|symlink"):
            run.open(config, ACTIONS, resume=True)
        run.close()
        (run.path / name).unlink()
    run.checkpoints.folder.rmdir()
    run.checkpoints.folder.symlink_to(tmp_path)
    with pytest.raises(UserError, match="checkpoints is a symbolic link"):
        run.open(config, ACTIONS, resume=True)
    run.close()
    assert other.read_text() == "somebody else's"
