"""Processes that run the tiny experiment; their stores share a cache of compiled programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_runs import RUN_ENVIRONMENT, finish, lines, results

PROGRAM = Path(__file__).with_name("tiny_experiment.py")

Start = Callable[..., subprocess.Popen]


@pytest.fixture(scope="session")
def compiled_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="session")
def new_store(tmp_path_factory: pytest.TempPathFactory, compiled_programs: Path) -> Callable[[], Path]:
    """A function that creates an empty store."""

    def create() -> Path:
        store = tmp_path_factory.mktemp("store")
        (store / "work").mkdir()
        (store / "work" / "compiled").symlink_to(compiled_programs)
        return store

    return create


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """A function that starts the program; processes that still run at the end are killed."""
    running: list[subprocess.Popen] = []

    def begin(store: Path, *flags: str) -> subprocess.Popen:
        environment = {**os.environ, **RUN_ENVIRONMENT}
        command = [sys.executable, str(PROGRAM), str(store), *flags]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def expected(new_store, start):
    """The results of an undisturbed run."""
    store = new_store()
    finish(start(store))
    before = lines(store)
    finish(start(store))
    assert lines(store) == before  # finished trials are skipped
    return results(store)
