"""The pages: the site builds without a warning, and figures are those of the results store."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r"-?[\d.,]+ \[-?[\d.]+, -?[\d.]+\]")
PAGES_OF_RESULTS = ("reproduction", "when-to-use", "minatar", "minigrid", "planted", "atari", "paper")


@pytest.fixture(scope="module")
def results_md():
    """RESULTS.md as the script makes it from the records."""
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "docs/site/results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.results()


def test_results_page_is_that_of_the_records(results_md):
    stale = "RESULTS.md is stale: run python docs/site/results.py"
    assert (ROOT / "RESULTS.md").read_text(encoding="utf-8") == results_md, stale


@pytest.mark.parametrize("page", PAGES_OF_RESULTS)
def test_intervals_of_pages_are_in_the_results(page, results_md):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    missing = [figure for figure in FIGURE.findall(text) if figure not in results_md]
    assert not missing, f"docs/{page}.md states figures that RESULTS.md does not have: {missing}"


def test_reproduction_report_states_intervals():
    """The test above would pass on a page without figures."""
    assert len(FIGURE.findall((ROOT / "docs/reproduction.md").read_text(encoding="utf-8"))) >= 3


def test_prose_fits_the_line():
    wide = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120 and line[0] not in "|!"
    ]
    assert not wide, f"lines of prose over 120 characters: {wide}"


def test_readme_fits_on_150_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'masp-rl[docs]'")
    pytest.importorskip("mkdocstrings", reason="needs mkdocstrings: pip install 'masp-rl[docs]'")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    settings = (tmp_path / "site/reference/settings.html").read_text(encoding="utf-8")
    assert "meta_learning_rate" in settings and "paper-atari" in settings
    commands = (tmp_path / "site/reference/commands.html").read_text(encoding="utf-8")
    assert "masp similarity" in commands and "--resume" in commands
    names = (tmp_path / "site/reference/python.html").read_text(encoding="utf-8")
    assert "load_agent" in names and "MacroActionEnv" in names
