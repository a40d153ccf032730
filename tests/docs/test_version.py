"""One version everywhere: the package, its metadata, the citation and the change log."""

import re
import tomllib
from pathlib import Path

import masp

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    releases = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation and (project["version"], citation[1], releases[0]) == (masp.__version__,) * 3


def test_the_required_kernels_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [required] = project["optional-dependencies"]["kernels"]
    source = (ROOT / "kernels/masp_kernels/__init__.py").read_text(encoding="utf-8")
    assert re.search(r'__version__ = "(.*)"', source)[1].startswith(required.partition(">=")[2])
