"""The results store: nothing is lost or invented, whoever writes and however they end."""

import json
import subprocess
import sys

import pytest

from masp.errors import UserError
from masp.experiments.store import Store

WRITE = """
import sys
from masp.experiments.store import Store
store = Store(sys.argv[1])
for seed in range(50):
    store.append([{"trial": sys.argv[2], "seed": seed, "text": "x" * 3000}])
"""


def record(trial="a", seed=0, **more):
    return {"trial": trial, "seed": seed, **more}


def test_what_is_appended_is_read_by_all(tmp_path):
    store, other = Store(tmp_path), Store(tmp_path)
    assert other.records() == {}
    store.append([record(), record(seed=1)])
    assert set(other.records()) == {("a", 0), ("a", 1)}
    store.append([record(seed=2)])
    assert set(other.records()) == {("a", 0), ("a", 1), ("a", 2)}
    assert other.finished("a", [0, 2]) and not other.finished("a", [0, 3])


def test_a_torn_last_line_is_left_out_reported_and_completed(tmp_path):
    store = Store(tmp_path)
    store.append([record()])
    (file,) = (tmp_path / "records").iterdir()
    whole = json.dumps(record(seed=1))
    with open(file, "a") as stream:
        stream.write(whole[:9])
    reader = Store(tmp_path)
    assert set(reader.records()) == {("a", 0)}
    assert list(reader.problems.values()) == ["the last line is not finished; left out"]
    with open(file, "a") as stream:
        stream.write(whole[9:] + "\n")
    assert set(reader.records()) == {("a", 0), ("a", 1)}
    assert reader.problems == {}


def test_a_new_writer_never_continues_a_torn_line(tmp_path):
    """Each process has a file of its own, so what another left unfinished spoils nothing."""
    Store(tmp_path).append([record()])
    (file,) = (tmp_path / "records").iterdir()
    with open(file, "a") as stream:
        stream.write('{"trial": "a", "se')
    Store(tmp_path).append([record(seed=1)])
    assert set(Store(tmp_path).records()) == {("a", 0), ("a", 1)}


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"trial": "b"}', "3"])
def test_lines_that_are_no_records_are_reported(tmp_path, line):
    store = Store(tmp_path)
    store.append([record()])
    (file,) = (tmp_path / "records").iterdir()
    with open(file, "a") as stream:
        stream.write(line + "\n" + json.dumps(record(seed=1)) + "\n")
    assert set(store.records()) == {("a", 0), ("a", 1)}
    assert list(store.problems.values()) == ["not a record; left out"]


def test_the_first_of_two_equal_records_counts(tmp_path):
    Store(tmp_path).append([record(value=1), record(value=2)])
    assert Store(tmp_path).records()["a", 0]["value"] == 1


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), name]) for name in "abc"]
    reader = Store(tmp_path)
    while any(writer.poll() is None for writer in writers):
        reader.records()
    assert all(writer.returncode == 0 for writer in writers)
    assert set(reader.records()) == {(name, seed) for name in "abc" for seed in range(50)}
    assert reader.problems == {}


def test_a_plan_is_kept(tmp_path):
    store = Store(tmp_path)
    assert store.read_plan("tiny", "smoke") is None
    store.write_plan("tiny", "smoke", {"cells": [1]})
    assert Store(tmp_path).read_plan("tiny", "smoke") == {"cells": [1]}


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--store names a folder"):
        Store(tmp_path / "file")


def test_pandas_reads_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    Store(tmp_path).append([record(success=0.5, curve_frames=[1, 2]), record(seed=1, success=1.0, curve_frames=[1, 2])])
    frames = [pandas.read_json(file, lines=True) for file in (tmp_path / "records").glob("*.jsonl")]
    table = pandas.concat(frames)
    assert table.groupby("trial")["success"].mean()["a"] == 0.75
