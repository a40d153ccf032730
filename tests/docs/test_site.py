"""The site: it builds without a warning, has the generated pages, and fits a telephone."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PHONE = 400
COMPLETE = "document.readyState === 'complete'"
GENERATED = {
    "settings": ("meta_learning_rate", "paper-atari"),
    "commands": ("masp similarity", "--resume"),
    "options": ("sticky", "pay_good", "integrations"),
    "metrics": ("effective_neighbours",),
    "python": ("load_agent", "MacroActionEnv"),
    "street-fighter": ("guard-low",),
}
"""Page to words that are on it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site; a broken link or anchor is a warning, and a warning is an error."""
    for package in ("mkdocs", "mkdocstrings"):
        pytest.importorskip(package, reason=f"needs {package}: pip install 'masp-rl[docs]'")
    for package in ("ale_py", "pgx", "stable_retro"):
        pytest.importorskip(package, reason=f"the options of its environments are read: needs {package}, make extras")
    folder = tmp_path_factory.mktemp("site")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    return folder


@pytest.mark.parametrize("page", GENERATED)
def test_generated_pages_have_their_content(site, page):
    text = (site / f"reference/{page}.html").read_text(encoding="utf-8")
    assert not [word for word in GENERATED[page] if word not in text]


def test_the_tutorial_shows_its_code(site):
    text = (site / "tutorial.html").read_text(encoding="utf-8")
    assert "Doors" in text and "similarity_start" in text and "8&lt;" not in text


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("websocket", reason="needs websocket-client, to talk to the browser")
    spec = importlib.util.spec_from_file_location("browser_of_pages", ROOT / "tests/report/browser.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.PROGRAM is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    browser = module.Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_no_page_scrolls_sideways_on_a_telephone(site, browser):
    browser.size(PHONE, 800)
    widths = {}
    for page in sorted(site.rglob("*.html")):
        browser.open(page.as_uri(), COMPLETE)
        widths[page.relative_to(site).as_posix()] = browser.run("document.documentElement.scrollWidth")
    assert len(widths) > 40
    assert not {page: width for page, width in widths.items() if width > PHONE}


def test_pages_ask_for_nothing_from_elsewhere(site, browser):
    browser.requests.clear()
    for page in ("index", "architecture", "tutorial"):
        browser.open((site / f"{page}.html").as_uri(), COMPLETE)
    assert browser.requests and all(url.startswith(("file:", "data:")) for url in browser.requests)
