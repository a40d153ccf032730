"""Heat maps of overlaps, and the script of docs/mining.md that compares macro sets."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

from masp.report.macro_overlap import chain_order

SCRIPT = Path(__file__).parents[2] / "docs" / "figures" / "mining.py"


def test_chain_order_by_hand():
    overlap = np.array([[1, 0.1, 0.9], [0.1, 1, 0.5], [0.9, 0.5, 1]])
    assert chain_order(overlap) == [0, 2, 1]


def test_comparison_of_literal_and_useful_sets(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("mining_figures", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mining_figures", script)
    spec.loader.exec_module(script)
    for game in ("pitfall", "pong"):
        (tmp_path / game).mkdir()
        rows = [3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1] * 20
        (tmp_path / game / "1.txt").write_text("".join(f"{i},0,0,0,{a}\n" for i, a in enumerate(rows)))
    sets = script.compare(tmp_path)
    assert [(s.game, s.stride, s.name) for s in sets[:3]] == [
        ("pitfall", 1, "literal"),
        ("pitfall", 1, "useful"),
        ("pitfall", 4, "literal"),
    ]
    assert all(s.constant == 0 for s in sets if s.name == "useful")
    assert len(script.table(sets).splitlines()) == 2 + len(sets)
    script.bars(sets).savefig(tmp_path / "bars.png")
    script.overlaps(sets, "pitfall").savefig(tmp_path / "overlap.png")
