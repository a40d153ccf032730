"""The paper's tables in the package against the paper's text, cell by cell."""

import re
from pathlib import Path

import pytest

from masp.presets import PRESETS, SWEEPS
from masp.report.paper import PaperFigure, paper, paper_cell, paper_figure, paper_remarks, parse

SYMBOLS = {r"\gamma": "γ", r"\epsilon": "ε", r"\alpha": "α", r"\beta": "β", r"\eta": "η", r"\Sigma": "Σ", r"\to": "→"}


@pytest.fixture(scope="module")
def text() -> str:
    files = list((Path(__file__).parents[3] / "shared" / "paper").glob("*.txt"))
    if not files:
        pytest.skip("the paper's text is not here")
    return files[0].read_text()


def blocks(text: str, label: str, which: int) -> list[list[list[str]]]:
    """Groups of rows of plain cells of the `which`-th table with a label, groups being what lines separate."""
    tables = [
        part for part in text.split(r"\begin{table}")[1:] if rf"\label{{{label}}}" in part.split(r"\end{table}")[0]
    ]
    body = tables[which].split(r"\end{tabular}")[0].split(r"\begin{tabular}")[1]
    groups = []
    for group in re.split(r"\\hline|\\midrule|\\bottomrule|\\toprule", body):
        rows = [[plain(cell) for cell in row.split("&")] for row in group.split(r"\\") if "&" in row]
        groups.append([row[: len(row) - (row[-1] == "")] for row in rows])
    return [group for group in groups if group]


def plain(cell: str) -> str:
    """A cell without TeX."""
    cell = re.sub(r"\\cellcolor\{[^}]*\}", "", cell)
    cell = re.sub(r"\\text(bf|it)", "", cell)
    for command, letter in SYMBOLS.items():
        cell = cell.replace(command, letter)
    cell = re.sub(r"([\d.]+) \\times 10\^\{?(-?\d)\}?", r"\1e\2", cell.replace("--", "–"))
    cell = re.sub(r"\s+", " ", re.sub(r"[${}]", "", cell)).strip()
    return cell[1:-1] if re.fullmatch(r"\(\d+\.\d\)", cell) else cell  # human-normalised scores


@pytest.mark.parametrize("name", sorted(paper()["tables"]))
def test_every_cell_equals_the_printed_one(text, name):
    table = paper()["tables"][name]
    which = 1 if name == "atari" else 0  # two tables have the label results-table
    groups = blocks(text, table["label"], which)
    printed = [row for group in groups[1:] for row in _named(group, len(table["row_names"]))]
    assert printed == table["cells"]


def _named(group, parts):
    """Rows of a group with the name that stands in one of them in all."""
    if parts == 1:
        return group
    (name,) = [row[0] for row in group if row[0]]
    return [[name, *row[1:]] for row in group]


def test_the_paper_has_no_other_table(text):
    assert text.count(r"\begin{table}") == len(paper()["tables"])


def test_figures_as_numbers():
    assert parse("16,668.2 ± 2,050.5") == PaperFigure(16668.2, 2050.5)
    assert parse("-0.6 ± 0.0") == PaperFigure(-0.6, 0.0)
    assert parse("1") == PaperFigure(1.0, None)
    assert paper_cell("atari", ("Zaxxon",), "masp") == "26566.7 ± 2208.2"
    assert paper_cell("atari", ("Zaxxon",), "uniform") == ""
    assert paper_figure("atari", ("Pong",), "uniform") is None


def test_misprints_have_a_reading():
    assert paper_cell("atari-noise", ("Breakout", "0.25"), "macros") == "208.3.3 ± 22.6"
    assert paper_figure("atari-noise", ("Breakout", "0.25"), "macros") == PaperFigure(208.3, 22.6)
    assert any("36.9.6" in remark for remark in paper_remarks("atari", [("Pong",), ("Fishing Derby",)]))
    assert not any("36.9.6" in remark for remark in paper_remarks("atari", [("Pong",)]))  # not about that row
    assert paper_remarks("atari", []) == []
    for table in ("atari", "atari-k", "atari-noise", "atari-transfer", "minigrid", "street-fighter"):
        misprinted = {(tuple(m["row"]), m["column"]) for m in paper()["misprints"] if m["table"] == table}
        data = paper()["tables"][table]
        parts = len(data["row_names"])
        for line in data["cells"]:
            for column, figure in zip(data["columns"], line[parts:], strict=True):
                fine = re.fullmatch(r"-?[\d,]+(\.\d+)?( ± [\d,]+(\.\d+)?)?", figure)
                assert bool(fine) != ((tuple(line[:parts]), column) in misprinted), (table, line)


def test_remarks_agree_with_the_figures():
    """What the remarks say can be seen in the figures."""
    rainbow = paper_figure("atari", ("Breakout",), "rainbow")
    thousand = paper_figure("atari-k", ("Breakout", "1024"), "masp")
    assert rainbow is not None and thousand is not None and rainbow.mean == thousand.mean == 379.5
    own = paper_cell("atari-transfer", ("Breakout",), "Breakout")
    assert own == paper_cell("atari-transfer", ("Breakout",), "Private Eye")
    for game in ("Breakout", "Montezuma's Revenge", "Private Eye", "Space Invaders"):
        diagonal, learned = paper_figure("atari-transfer", (game,), game), paper_figure("atari", (game,), "masp")
        assert diagonal == learned


def test_tables_agree_with_each_other():
    """The games of the main text, of the noise table at p = 0 and of the appendix have the same figures."""
    for row in paper()["tables"]["atari-main"]["cells"]:
        for column in ("rainbow", "macros", "masp"):
            assert paper_figure("atari-main", (row[0],), column) == paper_figure("atari", (row[0],), column)
        for column in ("macros", "masp"):
            assert paper_figure("atari-noise", (row[0], "0"), column) == paper_figure("atari", (row[0],), column)


def test_presets_equal_the_hyper_parameter_tables():
    """The presets are to the digit what the tables say, sweeps included."""
    for preset, table in (
        ("paper-atari", "atari-hyperparameters"),
        ("paper-minigrid", "minigrid-hyperparameters"),
        ("paper-sf2", "street-fighter-hyperparameters"),
    ):
        values = PRESETS[preset]
        assert values["learning_rate"] == float(paper_cell(table, ("Learning rate",), "value"))
        assert values["batch_size"] == int(paper_cell(table, ("Batch size",), "value"))
        assert values["replay_steps"] == int(float(paper_cell(table, ("Replay buffer size",), "value")))
        period = paper_cell(table, ("Target network update period",), "value")
        assert values["target_period_steps"] == int(period.removesuffix(" steps").replace(",", ""))
        assert values["embedding"] == int(paper_cell(table, ("Σ embedding dim (e_Σ)",), "value"))
        weights = paper_cell(table, ("MASP penalty weight η",), "value").removesuffix(" (swept)")
        assert SWEEPS[preset]["penalty_weight"] == tuple(map(float, weights.split(", ")))
        rates = paper_cell(table, ("Meta-learning rate β",), "value").removesuffix(" (swept)")
        assert SWEEPS[preset]["meta_learning_rate"] == tuple(map(float, rates.split(", ")))
