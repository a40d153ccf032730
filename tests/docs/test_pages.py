"""The pages: figures are those of the results store, links lead somewhere, lines and the README are short."""

import importlib.util
import re
from pathlib import Path

import pytest
from page_figures import MARKED, figures_of, unmarked, values_of

ROOT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r"-?[\d.,]+ \[-?[\d.]+, -?[\d.]+\]")
FULLY_MARKED = ("when-to-use", "tutorial", "transfer", "planted", "index", "quickstart", "concepts")
PAGES_OF_RESULTS = (*FULLY_MARKED, "reproduction", "minatar", "minigrid", "atari", "paper")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKING = [*PAGES, *ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs/log").glob("*.md")]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")


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
    missing = [figure for figure in FIGURE.findall(MARKED.sub("", text)) if figure not in results_md]
    assert not missing, f"docs/{page}.md states figures that RESULTS.md does not have: {missing}"


def test_reproduction_report_states_intervals():
    """The test above would pass on a page without figures."""
    assert len(FIGURE.findall((ROOT / "docs/reproduction.md").read_text(encoding="utf-8"))) >= 3


def test_prose_fits_the_line():
    wide = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in PAGES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120 and line[0] not in "|!"
    ]
    assert not wide, f"lines of prose over 120 characters: {wide}"


def test_readme_fits_on_150_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_marked_figures_are_what_their_markers_name(page):
    problems = [figure.problem() for figure in figures_of(page.read_text(encoding="utf-8"))]
    assert not [problem for problem in problems if problem]


@pytest.mark.parametrize("page", FULLY_MARKED)
def test_pages_of_results_mark_every_figure(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    assert unmarked(text) == [], f"docs/{page}.md: give each figure a marker, see tests/docs/page_figures.py"


def test_markers_tell_wrong_figures():
    name = "structure:run:grid,128primitives:masp"
    mean, low, high = values_of(name)
    right = f"{mean:.3f} [{low:.3f}, {high:.2f}]<!--{name}-->, {100 * mean:.0f} %<!--{name}-->"
    assert [figure.problem() for figure in figures_of(right)] == ["", ""]
    wrong = right.replace(f"{low:.3f}", f"{low + 0.001:.3f}")
    assert "should be" in figures_of(wrong)[0].problem()
    assert "names nothing" in figures_of("0.5<!--structure:run:grid:masp-->")[0].problem()
    assert unmarked("won 0.5 of `0.7`, 0.25 [0.1, 0.3], 0.6<!--a:b-->, 0.6 [0.5, 0.7]<!--a:b-->") == ["0.5"]


@pytest.mark.parametrize("page", sorted(set(LINKING)), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Files and headings; pages under reference/ are made with the site, whose test follows links to them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = [
        f"{target}#{anchor}"
        for target, anchor in LINK.findall(text)
        if "reference/" not in target and not leads(page.parent / target if target else page, anchor)
    ]
    assert not broken, f"{page.relative_to(ROOT)} links to {broken}"


def leads(file, anchor):
    """Whether the file exists and has the heading."""
    if not file.exists():
        return False
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
    return not anchor or anchor in {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
