"""Compiled programs on disk: whole or not there at all, bounded, shared, and only for commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from masp.ops import program_cache
from masp.ops.program_cache import ProgramFolder, user_folder

PROGRAM = bytes(range(256)) * 8

TWO_PROGRAMS = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("error")
import jax
from masp.ops import cache_programs
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
cache_programs(Path(sys.argv[1]))
square, cube = jax.jit(lambda x: x * x), jax.jit(lambda x: x * x * x)
print(json.dumps({"values": [float(square(3.0)), float(cube(3.0))], "hits": len(hits)}))
"""


def in_process(folder):
    """What two programs give in a new process, and how many of them came from the folder."""
    run = subprocess.run([sys.executable, "-c", TWO_PROGRAMS, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


@pytest.fixture
def programs(tmp_path):
    return ProgramFolder(tmp_path / "programs" / "kind")


def entries(folder):
    return sorted(folder.rglob("*.program"))


def test_a_program_is_found_again(programs):
    assert programs.get("key") is None
    programs.put("key", PROGRAM)
    assert programs.get("key") == PROGRAM
    assert programs.get("other") is None


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, len(PROGRAM) + 31])
def test_a_truncated_entry_is_removed_and_written_anew(programs, tmp_path, size):
    programs.put("key", PROGRAM)
    (file,) = entries(tmp_path)
    os.truncate(file, size)
    assert programs.get("key") is None
    assert not entries(tmp_path)
    programs.put("key", PROGRAM)
    assert programs.get("key") == PROGRAM


@pytest.mark.parametrize("position", [0, 40, -1])
def test_an_entry_with_a_wrong_byte_is_no_program(programs, tmp_path, position):
    programs.put("key", PROGRAM)
    (file,) = entries(tmp_path)
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)
    assert programs.get("key") is None


def test_the_programs_used_last_stay(tmp_path):
    """Three fit; the bound counts the programs of all kinds of processors."""
    size = 3 * (len(PROGRAM) + 32)
    one, two = (ProgramFolder(tmp_path / kind, size) for kind in ("one", "two"))
    for age, (folder, key) in enumerate([(one, "a"), (one, "b"), (two, "c")]):
        folder.put(key, PROGRAM)
        os.utime(tmp_path / ("two" if folder is two else "one") / f"{key}.program", (age + 1, age + 1))
    assert one.get("a") == PROGRAM  # b is now the one that was not used for longest
    two.put("d", PROGRAM)
    assert [file.stem for file in entries(tmp_path)] == ["a", "c", "d"]


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    blocked = ProgramFolder(tmp_path / "file" / "programs")
    blocked.put("key", PROGRAM)
    assert blocked.get("key") is None
    assert in_process(tmp_path / "file") == {"values": [9.0, 27.0], "hits": 0}


def test_readers_beside_writers_see_whole_programs(programs):
    def use(i):
        programs.put("key", PROGRAM)
        return programs.get("key")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, range(64))) == {PROGRAM}


def test_damaged_entries_are_compiled_again_without_a_word(tmp_path):
    assert in_process(tmp_path) == {"values": [9.0, 27.0], "hits": 0}
    files = entries(tmp_path)
    assert len(files) >= 2
    assert in_process(tmp_path) == {"values": [9.0, 27.0], "hits": len(files)}
    for i, file in enumerate(files):
        os.truncate(file, i * file.stat().st_size // len(files))
    assert in_process(tmp_path) == {"values": [9.0, 27.0], "hits": 0}
    assert in_process(tmp_path) == {"values": [9.0, 27.0], "hits": len(files)}


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "cache/masp/programs"),
        ({"MASP_PROGRAM_CACHE": "0"}, None),
        ({"JAX_COMPILATION_CACHE_DIR": "own"}, "own"),
    ],
)
def test_commands_keep_programs_where_the_user_wants_them(tmp_path, environment, folder):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    settings = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    settings |= {name: str(tmp_path / value) if "DIR" in name else value for name, value in environment.items()}
    command = ["record", "planted-grid", "--policy", "random", "--episodes", "1", "--out", str(tmp_path / "play.jsonl")]
    run = subprocess.run(
        [sys.executable, "-c", "import sys; from masp.cli.main import main; sys.exit(main())", *command],
        env=inherited | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    written = {file.parent for name in ("cache", "own") for file in (tmp_path / name).rglob("*") if file.is_file()}
    assert len(written) == (folder is not None)
    assert all(path.is_relative_to(tmp_path / folder) for path in written)


@pytest.mark.parametrize(
    ("system", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/masp/programs"),
        ("linux", {}, "/home/me/.cache/masp/programs"),
        ("darwin", {}, "/home/me/Library/Caches/masp/programs"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/masp/programs"),
    ],
)
def test_the_users_cache_folder(monkeypatch, system, environment, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/home/me"} | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(program_cache.sys, "platform", system)
    assert user_folder().as_posix() == expected
