"""Benchmark and documentation figures: they run, and their numbers are named as promised."""

import numpy as np

from masp.bench import mining as bench
from masp.macros.mining.comparison import bars, compare, overlaps, table
from masp.macros.mining.figures import chain_order


def test_bench_names_every_ratio_with_its_interval(monkeypatch):
    monkeypatch.setattr(bench, "ROWS", 50_000)
    monkeypatch.setattr(bench, "GROWTH_ROWS", (200_000, 500_000))
    found = bench.run(quick=True)
    assert found["same_counts"] is True
    ratios = [name for name in found if name.endswith("ratio")]
    assert "naive_over_ours_ratio" in ratios
    for name in ratios:
        low, high = found[f"{name}_interval"]
        assert 0 < low <= found[name] <= high
    assert len(found["growth"]) == 4


def test_run_heavy_play_has_runs():
    play = bench.run_heavy_play(20_000)
    assert len(play) == 20_000
    assert 10 < len(play) / (play[1:] != play[:-1]).sum() < 30
    assert (bench.run_heavy_play(20_000) == play).all()
    assert (bench.run_heavy_play(20_000, seed=1) != play).any()


def test_comparison(tmp_path):
    for game in ("pitfall", "pong"):
        (tmp_path / game).mkdir()
        rows = [3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1] * 20
        (tmp_path / game / "1.txt").write_text("".join(f"{i},0,0,0,{a}\n" for i, a in enumerate(rows)))
    sets = compare(tmp_path)
    assert [(s.game, s.stride, s.name) for s in sets[:3]] == [
        ("pitfall", 1, "literal"),
        ("pitfall", 1, "useful"),
        ("pitfall", 4, "literal"),
    ]
    assert all(s.constant == 0 for s in sets if s.name == "useful")
    assert len(table(sets).splitlines()) == 2 + len(sets)
    bars(sets).savefig(tmp_path / "bars.png")
    overlaps(sets, "pitfall").savefig(tmp_path / "overlap.png")


def test_chain_order_by_hand():
    overlap = np.array([[1, 0.1, 0.9], [0.1, 1, 0.5], [0.9, 0.5, 1]])
    assert chain_order(overlap) == [0, 2, 1]
