"""Tables: records in their cells, beside the paper's figures, in every format."""

import json

import numpy as np
import pytest

from masp.macros.actions import ActionSet
from masp.report.experiment_figures import draw
from masp.report.render import render
from masp.report.tables import build, summarise, summary_lines
from masp.similarity.bundle import Bundle, save_bundle


def plan(cells, **changes):
    data = {
        "experiment": "minigrid",
        "scale": "laptop",
        "title": "MiniGrid",
        "measure": "success",
        "row_names": ["task"],
        "paper_table": "minigrid",
        "kind": "bars",
        "note": "a note",
        "cells": [
            {
                "row": row,
                "column": column,
                "trial": f"{'-'.join(row)}-{column}",
                "seeds": [0, 1],
                "control": column,
                "env": "DoorKey-8x8",
                "frames": 500,
            }
            for row, column in cells
        ],
    }
    return {**data, **changes}


def record(trial, seed, value, **more):
    curve = {"curve_frames": [100, 500], "curve_success": [0.0, value], "curve_return": [0.0, value]}
    shared = {"success": value, "return": value, "commit": "abc", "chosen": {}, "run": f"runs/{trial}-{seed}"}
    return (trial, seed), {**shared, **curve, **more}


@pytest.fixture
def table():
    """Door Key has two seeds of masp and of rainbow and one of macros; Four Rooms has masp only."""
    cells = [(["Door Key"], "macros"), (["Door Key"], "masp"), (["Four Rooms"], "macros"), (["Four Rooms"], "masp")]
    cells.append((["Door Key"], "rainbow"))
    records = dict(
        [
            record("Door Key-macros", 0, 0.25),
            record("Door Key-rainbow", 0, 0.25),
            record("Door Key-rainbow", 1, 0.25),
            record("Door Key-masp", 0, 0.5),
            record("Door Key-masp", 1, 1.0, chosen={"penalty_weight": 0.3}),
            record("Four Rooms-masp", 0, 0.125),
            record("Four Rooms-masp", 1, 0.375),
            record("another", 0, 0.9),
        ]
    )
    return build(plan(cells), records), records


def test_cells_hold_their_records_and_the_papers_figures(table):
    rows = dict(table[0].rows)
    masp, macros = rows["Door Key",]["masp"], rows["Door Key",]["macros"]
    assert (masp.mean, masp.values, masp.seeds, masp.paper) == (0.75, (0.5, 1.0), (0, 1), "1")
    assert masp.interval == (0.5, 1.0)
    assert (macros.mean, macros.interval, macros.missing_seeds, macros.paper) == (0.25, None, (1,), "0.88")
    empty = rows["Four Rooms",]["macros"]
    assert (empty.mean, empty.values, empty.paper) == (None, (), "0.87")


def test_text_shows_our_figures_the_papers_and_their_origin(table):
    text = render(table[0], "text")
    for expected in ("0.750", "[0.500, 1.000]", "paper 0.88", "0.250", "–: not run yet (1 of 5 cells)", "a note"):
        assert expected in text
    assert "seeds per cell: 1 to 2; frames per seed: 500; commit: abc" in text
    assert "*: some seeds are not finished yet" in text


@pytest.mark.parametrize("width", [50, 80])
def test_columns_that_do_not_fit_continue_below(table, width):
    lines = render(table[0], "text", width).splitlines()
    grid = [line for line in lines if line[:1] in "┏┃┡│├└"]
    assert max(map(len, grid)) <= width
    assert all(any(f"┃ {column}" in line for line in grid) for column in ("macros", "masp", "rainbow"))
    assert len([line for line in grid if line.startswith("┏")]) == (2 if width == 50 else 1)


def test_markdown_is_a_table(table):
    lines = render(table[0], "markdown").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert rows[0] == "| task | macros | masp | rainbow |"
    assert (
        rows[2]
        == "| Door Key | 0.250 * (paper 0.88) | 0.750 [0.500, 1.000] (paper 1) | 0.250 [0.250, 0.250] (paper 0.83) |"
    )
    assert all(line.count("|") == 5 for line in rows)


def test_latex_is_balanced_and_escaped(table):
    text = render(table[0], "latex")
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    assert r"Door Key & 0.250 * (paper 0.88) & 0.750 [0.500, 1.000] (paper 1) & " in text
    assert r"95 \% bootstrap" in text and "95 % " not in text


def test_json_has_all_fields(table):
    data = json.loads(json.dumps(table[0].to_json()))
    first = data["rows"][0]
    assert first["row"] == {"task": "Door Key"}
    assert first["cells"]["masp"]["mean"] == 0.75
    assert first["cells"]["masp"]["interval"] == [0.5, 1.0]
    assert first["cells"]["masp"]["paper"] == "1"


def test_masp_is_compared_with_every_other_column(table):
    summary = summarise(table[0])
    assert set(summary["against"]) == {"rainbow"}  # macros have one seed only
    assert summary["against"]["rainbow"]["rows"] == 1  # Four Rooms has no rainbow to compare with
    assert summary["against"]["rainbow"]["probability_of_improvement"][0] == 1.0
    assert summary["against"]["rainbow"]["difference"][0] == 0.5
    assert set(summary["over_tasks"]) == {"masp"}  # macros are not complete
    assert summary["over_tasks"]["masp"]["mean"][0] == 0.5
    assert (
        "masp beats rainbow with probability 1.00 [1.00, 1.00], difference 0.500 [0.250, 0.750] (1 row)"
        in summary_lines(table[0])
    )


def test_scores_of_atari_are_normalised_before_they_are_averaged():
    cells = [(["Pong"], "masp"), (["Breakout"], "masp")]
    data = plan(cells, measure="return", paper_table="atari")
    data["cells"][0]["env"], data["cells"][1]["env"] = "Pong", "Breakout"
    # by hand: Pong random -20.7, human 14.6; Breakout random 1.7, human 30.5
    records = dict([record("Pong-masp", 0, 14.6), record("Breakout-masp", 0, 1.7)])
    summary = summarise(build(data, records))
    assert summary["over_tasks"]["masp"]["mean"][0] == pytest.approx(50.0)


def test_returns_of_other_games_are_not_averaged():
    data = plan([(["a"], "masp"), (["b"], "masp")], measure="return", paper_table="")
    summary = summarise(build(data, dict([record("a-masp", 0, 1.0), record("b-masp", 0, 2.0)])))
    assert summary["over_tasks"] == {}


@pytest.mark.parametrize("kind", ["bars", "lines", "matrix"])
def test_figures_are_drawn(tmp_path, kind):
    rows = [["Breakout", "64"], ["Breakout", "128"]]
    cells = [(row, column) for row in rows for column in ("macros", "masp")]
    data = plan(cells, kind=kind, row_names=["game", "macros"], paper_table="atari-k", measure="success")
    values = np.linspace(0, 1, 8)
    places = [(f"{'-'.join(row)}-{column}", seed) for row, column in cells for seed in (0, 1)]
    records = dict(record(trial, seed, value) for (trial, seed), value in zip(places, values, strict=True))
    run = tmp_path / "store" / "runs" / "Breakout-64-masp-0"
    run.mkdir(parents=True)
    save_bundle(run / "similarity.safetensors", Bundle(ActionSet(3), np.eye(3, dtype=np.float32)))
    files = draw(build(data, records), records, tmp_path / "store", tmp_path / "figures")
    names = {file.name.removeprefix("minigrid-laptop-") for file in files}
    curves = {"curves-breakout-64.png", "curves-breakout-128.png"}
    assert names == {f"{kind}.png", "profiles.png", "similarity-breakout-64.png", *curves}
    assert all(file.stat().st_size > 5000 for file in files)


def test_without_results_nothing_is_drawn(tmp_path):
    assert draw(build(plan([(["Door Key"], "masp")]), {}), {}, tmp_path, tmp_path) == []
