"""The results store: no record is lost or invented, whatever happens to its writers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import full_record as record

from masp.errors import UserError
from masp.experiments.store import Store

WRITE = """
import sys
from masp.experiments.store import Store
from tiny_runs import full_record
store = Store(sys.argv[1])
for seed in range(50):
    store.append([full_record(sys.argv[2], seed, text="x" * 3000)])
"""
PLAN = {
    "experiment": "tiny",
    "scale": "smoke",
    "title": "tiny",
    "measure": "success",
    "row_names": ["task"],
    "paper_table": "",
    "kind": "bars",
    "note": "",
    "cells": [{"row": ["a"], "column": "masp", "trial": "x", "seeds": [0], "env": "planted-bandit", "frames": 1}],
}


def test_appended_records_are_seen_by_all_stores(tmp_path):
    store, other = Store(tmp_path), Store(tmp_path)
    assert other.records() == {}
    store.append([record(), record(seed=1)])
    assert set(other.records()) == {("a", 0), ("a", 1)}
    store.append([record(seed=2)])
    assert set(other.records()) == {("a", 0), ("a", 1), ("a", 2)}
    assert other.finished("a", [0, 2]) and not other.finished("a", [0, 3])


def test_an_unfinished_last_line_is_reported_until_it_is_complete(tmp_path):
    store = Store(tmp_path)
    store.append([record()])
    (file,) = (tmp_path / "records").iterdir()
    whole = json.dumps(record(seed=1))
    with open(file, "a") as stream:
        stream.write(whole[:9])
    reader = Store(tmp_path)
    assert set(reader.records()) == {("a", 0)}
    assert reader.problems == {str(file): "line 2: the last line is not finished; left out"}
    with open(file, "a") as stream:
        stream.write(whole[9:] + "\n")
    assert set(reader.records()) == {("a", 0), ("a", 1)}
    assert reader.problems == {}


def test_a_new_writer_never_continues_an_unfinished_line(tmp_path):
    """Each process has a file of its own."""
    Store(tmp_path).append([record()])
    (file,) = (tmp_path / "records").iterdir()
    with open(file, "a") as stream:
        stream.write('{"trial": "a", "se')
    Store(tmp_path).append([record(seed=1)])
    assert set(Store(tmp_path).records()) == {("a", 0), ("a", 1)}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "broken JSON"),
        ("[]", "not a JSON object"),
        ("3", "not a JSON object"),
        (json.dumps({**record(), "format": 3}), "format 3, this version reads up to 2"),
        (json.dumps({name: value for name, value in record().items() if name != "success"}), "without success"),
        (json.dumps({**record(), "seed": None}), "int() argument must be"),
    ],
)
def test_unreadable_lines_are_reported_with_file_line_and_reason(tmp_path, line, reason):
    store = Store(tmp_path)
    store.append([record()])
    (file,) = (tmp_path / "records").iterdir()
    with open(file, "a") as stream:
        stream.write(line + "\n" + json.dumps(record(seed=1)) + "\n")
    assert set(store.records()) == {("a", 0), ("a", 1)}
    ((where, problem),) = store.problems.items()
    assert where == f"{file}, line 2"
    assert problem.startswith(f"not a record ({reason}") and problem.endswith("; left out")


def test_line_numbers_count_from_the_start_of_the_file(tmp_path):
    store = Store(tmp_path)
    store.append([record(), record(seed=1)])
    store.records()
    (file,) = (tmp_path / "records").iterdir()
    with open(file, "a") as stream:
        stream.write("\nnonsense\n")
    store.records()
    assert list(store.problems) == [f"{file}, line 4"]


def test_records_of_format_1_are_read(tmp_path):
    Store(tmp_path).append([record(format=1)])
    assert Store(tmp_path).records()["a", 0]["format"] == 1


def test_the_first_of_two_equal_records_counts(tmp_path):
    Store(tmp_path).append([record(value=1), record(value=2)])
    assert Store(tmp_path).records()["a", 0]["value"] == 1


def test_concurrent_writers_lose_no_record(tmp_path):
    here = str(Path(__file__).parent)
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), name], cwd=here) for name in "abc"]
    reader = Store(tmp_path)
    while any(writer.poll() is None for writer in writers):
        reader.records()
    assert all(writer.returncode == 0 for writer in writers)
    assert set(reader.records()) == {(name, seed) for name in "abc" for seed in range(50)}
    assert reader.problems == {}


def test_a_plan_is_kept(tmp_path):
    store = Store(tmp_path)
    assert store.read_plan("tiny", "smoke") is None
    store.write_plan("tiny", "smoke", PLAN)
    assert Store(tmp_path).read_plan("tiny", "smoke") == PLAN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"cells":\n [1', "line 2: broken JSON (Expecting ',' delimiter); left out"),
        ("[]", "not a plan (not a JSON object); left out"),
        ('{"cells": []}', "not a plan (without experiment, kind"),
        (json.dumps({**PLAN, "cells": [{"row": ["a"]}]}), "not a plan (without column, env"),
    ],
)
def test_an_unreadable_plan_is_reported_and_replaced(tmp_path, text, problem):
    store = Store(tmp_path)
    store.write_plan("tiny", "smoke", PLAN)
    file = tmp_path / "plans" / "tiny-smoke.json"
    file.write_text(text)
    assert store.read_plan("tiny", "smoke") is None
    assert list(store.problems) == [str(file)] and store.problems[str(file)].startswith(problem)
    store.write_plan("tiny", "smoke", PLAN)
    assert store.read_plan("tiny", "smoke") == PLAN and store.problems == {}


def test_a_file_is_not_a_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--store names a folder"):
        Store(tmp_path / "file")


def test_pandas_reads_records(tmp_path):
    pandas = pytest.importorskip("pandas")
    Store(tmp_path).append([record(success=0.5, curve_frames=[1, 2]), record(seed=1, success=1.0, curve_frames=[1, 2])])
    frames = [pandas.read_json(file, lines=True) for file in (tmp_path / "records").glob("*.jsonl")]
    table = pandas.concat(frames)
    assert table.groupby("trial")["success"].mean()["a"] == 0.75
