"""Looking at runs of the tiny experiment from outside."""

import time

from masp.experiments import claims
from masp.experiments.store import Store
from masp.similarity.bundle import load_bundle

PATIENCE = 1500
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


def wait_for(condition, process=None):
    """What `condition` returns once it is true; not longer than `process` lives."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        assert process is None or process.poll() is None, process.communicate()[1]
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
