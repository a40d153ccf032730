"""Public names: listed, documented, each with an example that runs."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import masp

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = [name for name in masp.__all__ if hasattr(getattr(masp, name), "__doc__")]


def test_all_names_are_listed():
    assert set(masp.__all__) <= set(dir(masp))
    assert all(getattr(masp, name) is not None for name in masp.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    value = getattr(masp, name)
    text = value.__doc__ or ""
    files = re.findall(r"examples/(\w+\.py)", text)
    assert ">>>" in text or files, f"masp.{name} needs a doctest, or the name of a file in examples/"
    assert all((EXAMPLES / file).exists() for file in files)
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(value.__module__)
    results = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(value, name, globs=vars(module).copy()):
        results.run(test)
    assert results.failures == 0
