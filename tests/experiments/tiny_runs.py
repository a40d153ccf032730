"""Results and progress of the tiny experiment, seen from outside."""

import time

from masp.experiments import claims
from masp.experiments.store import Store
from masp.similarity.bundle import load_bundle

PATIENCE = 1500
"""Seconds until a waiting test gives up."""
RUN_ENVIRONMENT = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",  # quick to compile
    "MASP_CHECKPOINT_SECONDS": "0",
}
"""Of processes that train: a checkpoint after every chunk."""


def full_record(trial="a", seed=0, **values):
    """A record with all fields that readers need."""
    defaults = {
        "trial": trial,
        "seed": seed,
        "label": "a label",
        "env": "planted-bandit",
        "variant": "macros",
        "control": "macros",
        "k": None,
        "config": {"hidden": 64},
        "chosen": {},
        "commit": "abc",
        "run": "nowhere",
        "frames": 400,
        "frames_per_second": 100.0,
        "seconds": 12.5,
        "finished": "2026-01-01T00:00:00Z",
        "return": 0.0,
        "success": 0.0,
        "curve_frames": [],
        "curve_return": [],
        "curve_success": [],
    }
    return {**defaults, **values}


def results(store_path):
    """Figures, curves and similarities, which must not depend on interruptions."""
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


def wait_for(condition, process=None):
    """Wait until `condition` is true and return its value; fail if `process` ends before."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        assert process is None or process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    return value


def finish(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return out


def half_way(store_path):
    """Ids of the processes that train a unit which has a checkpoint."""
    pids = []
    for folder in (store_path / "work" / "runs").glob("*"):
        message = claims.holder(store_path / "work" / "claims" / folder.name)
        if message and list(folder.glob("seed-*/checkpoints/checkpoint-*.safetensors")):
            pids.append(message["pid"])
    return pids
