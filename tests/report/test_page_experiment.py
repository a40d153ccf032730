"""The page of an experiment: every figure of the table is on it, beside the paper's."""

import numpy as np
import pytest

from masp.cli.main import main
from masp.macros.actions import ActionSet
from masp.report.page.experiment import experiment_page, row_title
from masp.report.tables import Table, TableCell
from masp.similarity.bundle import Bundle, save_bundle

CURVE = {"curve_frames": [50, 100], "curve_return": [0.0, 1.0], "curve_success": [0.1, None]}


@pytest.fixture
def page(page_of):
    return page_of("laptop")


@pytest.fixture
def page_of(tmp_path):
    """A function of the scale: two tasks, two columns, three seeds; one masp cell has its bundle."""
    rows, records = [], {}
    for task, trial in (("Door Key", "d"), ("Four Rooms", "f")):
        cells = {}
        for column, shift in (("macros", 0.0), ("masp", 0.3)):
            values = (0.2 + shift, 0.3 + shift, 0.4 + shift)
            cells[column] = TableCell(values, (0, 1, 2), (), 100, "env", trial + column, ("abc123",), "0.88")
            for seed in range(3):
                records[trial + column, seed] = {"run": "work/none", "commit": "abc123", "kernels": None, **CURVE}
        rows.append(((task,), cells))
    matrix = np.full((3, 3), 0.2, np.float32)
    np.fill_diagonal(matrix, 1)
    (tmp_path / "bundles").mkdir()
    save_bundle(tmp_path / "bundles" / "dmasp-0.safetensors", Bundle(ActionSet(2, [(0, 1)]), matrix))

    def build(scale):
        head = ("minigrid", scale, "A title", "success", "last", "bars", "minigrid")
        return experiment_page(Table(*head, ("task",), ("macros", "masp"), tuple(rows)), records, tmp_path)

    return build


def blocks(page, section, kind):
    found = next(part for part in page["sections"] if part["id"] == section)["blocks"]
    return [block for block in found if block["kind"] == kind]


def test_titles_of_rows_say_what_their_numbers_are():
    assert row_title(("task",), ("Door Key",)) == "Door Key"
    assert row_title(("game", "number of macros"), ("Breakout", "32")) == "Breakout, number of macros 32"


def test_table_and_dots_have_our_figures_and_the_papers(page):
    table = blocks(page, "summary", "table")[0]
    assert table["columns"] == ["task", "macros", "masp"]
    assert table["rows"][0] == ["Door Key", "0.300\n[0.200, 0.400]\npaper: 0.88", "0.600\n[0.500, 0.700]\npaper: 0.88"]
    (dots,) = blocks(page, "summary", "dots")
    assert [chart["title"] for chart in dots["dots"]] == ["Door Key", "Four Rooms"]
    masp = dots["dots"][0]["rows"][1]
    assert masp["value"] == pytest.approx(0.6) and masp["points"] == [0.5, 0.6, 0.7]
    finding = blocks(page, "summary", "text")[0]["text"]
    assert finding == "A run of masp is better than one of macros with probability 1.00 [1.00, 1.00] (1/2: equal)."
    assert "Diamonds" in dots["dots"][0]["read"] and dots["dots"][0]["rows"][0]["paper"] == 0.88


def test_comparisons_are_tables(page):
    against, over_tasks = blocks(page, "summary", "table")[1:]
    assert [row[0]["text"] for row in against["rows"]] == ["macros"]
    assert against["rows"][0][1] == "1.00 [1.00, 1.00]" and against["rows"][0][3] == "2"
    assert against["rows"][0][2].startswith("0.300 [")
    assert [(row[0]["text"], row[2][:5]) for row in over_tasks["rows"]] == [("macros", "0.300"), ("masp", "0.600")]


def test_smoke_scale_claims_nothing_and_stands_beside_no_paper(page_of):
    page = page_of("smoke")
    texts = [block["text"] for block in blocks(page, "summary", "text")]
    assert texts[0].startswith("scale smoke shows that everything runs") and not any("better" in text for text in texts)
    (table,) = blocks(page, "summary", "table")
    assert table["rows"][0] == ["Door Key", "0.300\n[0.200, 0.400]", "0.600\n[0.500, 0.700]"]
    assert "Diamonds" not in blocks(page, "summary", "dots")[0]["dots"][0]["read"]


def test_curves_profiles_similarities_and_sources_are_there(page):
    assert blocks(page, "settings", "table")[0]["rows"] == [["abc123", "–", "–", "–", "12"]]
    (profile,) = blocks(page, "profiles", "charts")[0]["charts"]
    assert [line["name"] for line in profile["lines"]] == ["macros", "masp"] and profile["lines"][0]["y"][0] == 1
    (maps,) = blocks(page, "similarity", "maps")
    assert [one["label"] for one in maps["maps"]] == ["Door Key, seed 0"] and maps["maps"][0]["frames"] == [100]


def test_evaluations_without_a_figure_are_left_out_of_curves(page):
    assert "learning" not in [section["id"] for section in page["sections"]], "one point is no curve"


def test_command_without_results_shows_the_papers_figures(tmp_path, capsys):
    (tmp_path / "store").mkdir()
    out = tmp_path / "t.html"
    assert main(["report", str(tmp_path / "store"), "--experiment", "minigrid", "--out", str(out)]) == 0
    assert out.stat().st_size < 3_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--experiment", "minigrid"], "there is no such results store"),
        (["a", "b", "--experiment", "minigrid"], "needs one results store"),
        (["a", "--scale", "smoke"], "--scale belongs to --experiment"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err
