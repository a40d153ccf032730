"""The tutorial runs from start to end with short budgets, and writes what its page promises."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from masp.macros.actions import ActionSet
from masp.report.metric_texts import EFFECTS, LISTS, METRICS

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--frames", "2000", "--seeds", "2", "--episodes", "60"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder that the tutorial wrote."""
    folder = tmp_path_factory.mktemp("tutorial")
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, str(ROOT / "examples/tutorial.py"), "--out", "out", *SHORT]
    process = subprocess.run(command, cwd=folder, env=quick, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert [file.name for file in folder.iterdir()] == ["out"]
    return folder / "out"


def test_it_writes_pages_pictures_and_figures(done):
    for page in ("six.html", "eight.html"):
        assert (done / page).stat().st_size > 1_000_000
    for picture in ("six.png", "eight.png"):
        assert (done / picture).read_bytes()[:4] == b"\x89PNG"
    results = json.loads((done / "results.json").read_text())
    kept = json.loads((ROOT / "docs/figures/tutorial.json").read_text())
    assert results["seeds"] == [0, 1] and {**shape(results), "frames": 0, "seeds": 0} == shape(kept)
    for task in ("six", "eight"):
        assert all(low <= mean <= high for arm in results[task].values() for mean, low, high in arm.values())


def shape(results):
    """Tasks, measures and arms, without figures."""
    arms = {task: {m: sorted(arm) for m, arm in results[task].items()} for task in ("six", "eight")}
    return {**arms, "frames": 0, "seeds": 0}


def test_the_first_macro_is_the_code_of_the_doors(done):
    assert ActionSet.load(done / "macros.json").macros[0].actions == (1, 2, 2, 0)


def test_the_transferred_similarity_is_that_of_the_source(done):
    from masp.training.run import load_run

    source = load_run(done / "six/masp-0")
    assert np.array_equal(load_run(done / "eight/similarity-0").similarity, source.similarity)
    assert load_run(done / "eight/agent-0").actions.macros == source.actions.macros


def test_every_column_of_its_metrics_is_explained(done):
    rows = [json.loads(line) for line in (done / "six/masp-0/metrics.jsonl").read_text().splitlines()]
    assert set().union(*rows) == METRICS.keys() | EFFECTS.keys() | LISTS.keys()


def test_doors_open_by_the_code_alone():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from tutorial import CODE, Doors
    finally:
        sys.path.pop(0)
    env = Doors(doors=2)
    env.reset(seed=0)
    assert [env.step(action)[1:3] for action in CODE * 2] == [(0.0, False)] * 7 + [(1.0, True)]
    env.reset(seed=0)
    for action in (*CODE[:3], CODE[1]):  # one turn too many: the key is out
        observation = env.step(action)[0]
    assert observation.nonzero()[0].tolist() == [0, 8]


def test_the_page_shows_parts_that_the_script_has():
    page, script = (ROOT / "docs/tutorial.md").read_text(), (ROOT / "examples/tutorial.py").read_text()
    sections = re.findall(r'--8<-- "examples/tutorial.py:(\w+)"', page)
    assert sections == ["environment", "mine", "train", "transfer"]
    for section in sections:
        assert f"[start:{section}]" in script and f"[end:{section}]" in script
