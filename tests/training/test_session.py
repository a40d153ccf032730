"""Sessions that do not go as planned: nothing is lost, nothing is silently wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import faulty_env  # noqa: F401 - registers Faulty-v0
import jax.numpy as jnp
import pytest

from masp.cli.main import main
from masp.config import replace, to_flat
from masp.errors import TrainingError, UserCodeError, UserError
from masp.training import array_file, loop, session
from masp.training.callbacks import Callback
from masp.training.lock import RunLock
from masp.training.train import train


class Messages(Callback):
    """Collects what training says."""

    def __init__(self):
        self.texts = []

    def on_message(self, text):
        self.texts.append(text)


class StopAt(Callback):
    """Asks training to stop, and raises if it is to."""

    def __init__(self, frames, error=None):
        self._frames, self._error = frames, error

    def on_row(self, run, row):
        if row["frames"] >= self._frames:
            if self._error:
                raise self._error
            return True
        return None


@pytest.fixture
def config(tiny_config, tmp_path):
    return replace(tiny_config, variant="macros", frames=180, out=str(tmp_path / "run"))


@pytest.fixture
def many_checkpoints(monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)


def frames_of(run):
    return [json.loads(line)["frames"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def checkpoint_files(run):
    """Oldest first."""
    return sorted((run / "checkpoints").glob("checkpoint-*"))


def flip_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_signal_saves_and_resume_finishes(config, tmp_path):
    run = tmp_path / "run"
    flags = [f"--{name.replace('_', '-')}={json.dumps(value)}" for name, value in to_flat(config).items()
             if isinstance(value, (int, float)) and not isinstance(value, bool)]  # fmt: skip
    flags += ["--variant", "macros", "--no-noisy", "--env-options", *config.env_options, "--out", str(run)]
    program = "import sys; from masp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "train", "planted-grid", *flags, "--frames", "100000000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "stopped at" in said and "--resume goes on from there" in said and "Traceback" not in said
    assert (run / "policy.safetensors").exists() and not (run / "summary.json").exists()
    frames = array_file.read_about(checkpoint_files(run)[-1])["frames"]
    assert frames >= frames_of(run)[-1] > 0


def test_damaged_checkpoints(config, many_checkpoints, tmp_path):
    """The one before is used, with a message; if that is damaged too, the error is one line and nothing is removed."""
    run = tmp_path / "run"
    train(config)
    assert len(checkpoint_files(run)) == 2
    flip_bit(checkpoint_files(run)[-1])
    messages = Messages()
    more = replace(config, frames=240)
    train(more, resume=True, callbacks=[messages])
    assert any("checksum does not fit" in text and "the checkpoint before" in text for text in messages.texts)
    assert any("now 240 frames instead of 180" in text for text in messages.texts)
    assert frames_of(run)[-1] >= 240 and json.loads((run / "summary.json").read_text())["frames"] >= 240
    for file in checkpoint_files(run):
        flip_bit(file)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "config.json"}
    with pytest.raises(UserError, match="checksum does not fit") as caught:
        train(replace(config, frames=300), resume=True)
    assert "\n" not in str(caught.value)
    assert checkpoint_files(run) == [path for path in sorted(before) if path.parent.name == "checkpoints"][:2]
    assert frames_of(run)[-1] >= 240


def test_second_process_is_refused(config, tmp_path):
    (tmp_path / "run").mkdir()
    lock = RunLock(tmp_path / "run")
    try:
        with pytest.raises(UserError, match="is being written by process"):
            train(config)
    finally:
        lock.release()


def test_resume_without_a_checkpoint_keeps_metrics_aside(config, tmp_path):
    run = tmp_path / "run"
    train(config)
    for path in [*(run / "checkpoints").iterdir(), run / "summary.json"]:
        path.unlink()
    old = (run / "metrics.jsonl").read_text()
    messages = Messages()
    train(config, resume=True, callbacks=[messages])
    assert any("there is no checkpoint yet; starting anew" in text for text in messages.texts)
    assert (run / "metrics.1.jsonl").read_text() == old


def test_raising_callback_loses_nothing(config, tmp_path):
    said = r"callback StopAt\.on_row raised ZeroDivisionError: oh \(test_session.py, line \d+\); what was trained"
    with pytest.raises(UserCodeError, match=said):
        train(config, callbacks=[StopAt(120, ZeroDivisionError("oh"))])
    (tmp_path / "whole").mkdir()
    whole = train(replace(config, out=str(tmp_path / "whole" / "run")))
    resumed = train(config, resume=True)
    clocks = ("seconds", "frames_per_second")
    assert {n: v for n, v in whole.summary.items() if n not in clocks} == {
        n: v for n, v in resumed.summary.items() if n not in clocks
    }
    assert frames_of(tmp_path / "run") == frames_of(tmp_path / "whole" / "run")


class RaisesAt(Callback):
    """Raises in progress from so many frames on, and when it is closed."""

    def __init__(self, frames):
        self._frames = frames

    def on_progress(self, frames, doing):
        if frames >= self._frames:
            raise RuntimeError("the terminal is gone")

    def close(self):
        raise KeyError("closed")


def test_progress_and_close_that_raise_lose_nothing(config, tmp_path):
    with pytest.raises(UserCodeError, match=r"RaisesAt\.on_progress raised RuntimeError: the terminal is gone"):
        train(config, callbacks=[RaisesAt(100)])  # and not the error of `close`
    assert checkpoint_files(tmp_path / "run")
    with pytest.raises(UserCodeError, match=r"RaisesAt\.close raised KeyError: 'closed'"):
        train(config, resume=True, callbacks=[RaisesAt(10**9)])
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_mistake_that_a_callback_names_is_the_line(config, tmp_path):
    with pytest.raises(UserError, match=r"^choose another --metric$"):
        train(config, callbacks=[StopAt(60, UserError("choose another --metric"))])
    assert checkpoint_files(tmp_path / "run")


@pytest.mark.parametrize(
    ("callbacks", "got"),
    [([7], "int"), ([StopAt], "type"), (StopAt(1, None), "one StopAt")],
    ids=["number", "class", "no list"],
)
def test_what_is_no_callback_is_refused(callbacks, got, config, tmp_path):
    with pytest.raises(UserError, match=f"callbacks must be a list of objects of .* masp.Callback, got {got}$"):
        train(config, callbacks=callbacks)
    assert not (tmp_path / "run").exists()


def test_full_disk_keeps_the_last_checkpoint(config, many_checkpoints, monkeypatch, tmp_path, capsys):
    real_fsync, calls = os.fsync, iter(range(10**6))

    def failing_fsync(descriptor):
        if next(calls) >= 40:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing_fsync)
    with pytest.raises(TrainingError, match="cannot write: No space left on device; the last checkpoint is whole") as e:
        train(config)
    assert e.value.exit_code == 1 and "\n" not in str(e.value)
    monkeypatch.setattr(os, "fsync", real_fsync)
    run = tmp_path / "run"
    assert checkpoint_files(run) and not list(run.rglob("*.partial"))
    train(config, resume=True)
    assert frames_of(run)[-1] >= 180


class NanRewards:
    """A JAX environment whose reward at the end of an episode is not a number."""

    def __init__(self, env):
        self._env, self.info, self.reset = env, env.info, env.reset

    def step(self, state, action, key):
        state, observation, reward, terminated, truncated = self._env.step(state, action, key)
        return state, observation, jnp.where(terminated | truncated, jnp.nan, reward), terminated, truncated


def test_nan_in_the_compiled_loop_is_named(config, monkeypatch, tmp_path):
    make_env = loop.make_env
    monkeypatch.setattr(loop, "make_env", lambda *args: NanRewards(make_env(*args)))
    with pytest.raises(TrainingError, match=r"observation or reward is not a finite number \(environment \d, tick \d+"):
        train(config)
    assert not checkpoint_files(tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""


def faulty(config, fault):
    options = (f"fault={fault}", "good_steps=60")
    return replace(config, env="faulty_env:Faulty-v0", env_options=options, frames=400, log_every_frames=400)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan-observation", r"observation or reward is not a finite number \(environment 0, tick 6\d\)"),
        ("raise", r"Faulty-v0 \(training, step, tick \d+ .*raised RuntimeError: the simulator is on fire"),
        ("four-values", "step of environment 0 returned 4 values, expected 5: observation, reward, terminated"),
        ("shape", r"environment 0 returned an observation of \(1,\), expected \(4,\)"),
        ("os-error", "environment raised FileNotFoundError: .*level.dat"),
    ],
)
def test_faults_of_environments_are_named(fault, message, config, many_checkpoints, tmp_path):
    with pytest.raises(TrainingError, match=message) as caught:
        train(faulty(config, fault))
    assert caught.value.exit_code == 1 and "\n" not in str(caught.value)
    assert checkpoint_files(tmp_path / "run")


def test_traceback_of_the_users_code_is_shown(monkeypatch, capsys):
    from masp.cli import train as command

    def fail(args):
        raise UserCodeError("the environment raised RuntimeError: fire") from RuntimeError("\x1b[31mfire")

    monkeypatch.setattr(command, "run", fail)
    assert main(["train", "CartPole-v1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("masp train: the environment raised RuntimeError: fire\n")
    assert said.endswith("Error: \ufffd[31mfire\n")
