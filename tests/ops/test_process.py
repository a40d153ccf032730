"""`tune_this_process` changes what it says, and nothing else in the package changes anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from masp.ops import kernels, process

CODE = """
import json, os, sys
import gymnasium, jax  # both set variables of their own
before = dict(os.environ)
from jax._src import compilation_cache
cache = lambda: [jax.config.jax_compilation_cache_dir, compilation_cache.get_file_cache.__module__]
cached = cache()
draw = lambda: jax.random.bits(jax.random.PRNGKey(7), (3,)).tolist()
lowered = lambda: jax.jit(lambda k: jax.random.bits(k, (3,))).lower(jax.random.PRNGKey(7)).as_text()
bits, text = draw(), lowered()
import masp
from masp.training.train import train
from masp.presets import from_preset
from masp.config import replace
config = replace(from_preset("auto", "planted-grid"), frames=600, min_replay_steps=64, replay_steps=2000,
                 log_every_frames=600, eval_every_frames=600, eval_episodes=2, out=sys.argv[1])
train(config)
jax.clear_caches()
print(json.dumps({"environ": dict(os.environ) == before, "bits": draw() == bits, "lowering": lowered() == text,
                  "cache": cache() == cached}))
"""


def test_importing_and_training_change_nothing(tmp_path):
    """Not the environment, not JAX's random bits, not how it computes them, and not what it keeps on disk."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == {"environ": True, "bits": True, "lowering": True, "cache": True}


@pytest.fixture
def calls(monkeypatch):
    """Replaces what would change this process; returns what was called."""
    calls = []

    class Random:
        @staticmethod
        def replace_threefry():
            calls.append("threefry")

    monkeypatch.setattr(process, "_keep_freed_memory", lambda: calls.append("memory"))
    monkeypatch.setattr(kernels, "module", {"random": Random}.__getitem__)
    monkeypatch.setenv("PJRT_NPROC", "")
    monkeypatch.delenv("PJRT_NPROC")
    return calls


@pytest.mark.parametrize(
    ("preset", "built", "threads"),
    [
        ("minatar", True, "1"),
        ("minatar", False, None),
        ("atari", True, "1"),
        ("gymnasium", True, None),
        (None, True, None),
    ],
)
def test_one_xla_thread_where_kernels_do_the_work(monkeypatch, calls, preset, built, threads):
    monkeypatch.setattr(kernels, "built", lambda: built)
    process.tune_this_process(preset)
    assert os.environ.get("PJRT_NPROC") == threads
    assert calls == (["memory", "threefry"] if built else ["memory"])


def test_a_choice_of_the_user_stays(monkeypatch, calls):
    monkeypatch.setattr(kernels, "built", lambda: True)
    monkeypatch.setenv("PJRT_NPROC", "2")
    process.tune_this_process("minatar")
    assert os.environ["PJRT_NPROC"] == "2"


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_memory_settings_are_for_linux_only(monkeypatch, platform):
    """ctypes.CDLL(None) raises on Windows."""
    monkeypatch.setattr(process.sys, "platform", platform)
    monkeypatch.setattr(process.ctypes, "CDLL", None)
    process._keep_freed_memory()
