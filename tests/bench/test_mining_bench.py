"""The benchmark of mining runs, and names each ratio and its interval."""

from masp.bench import mining as bench


def test_every_ratio_has_an_interval(monkeypatch):
    monkeypatch.setattr(bench, "ROWS", 50_000)
    monkeypatch.setattr(bench, "GROWTH_ROWS", (200_000, 500_000))
    result = bench.run(quick=True)
    assert result["same_counts"] is True
    ratios = {name for name in result if name.endswith("ratio")}
    assert ratios == {
        "naive_over_ours_ratio",
        "naive_over_ours_useful_ratio",
        "literal_growth_per_row_ratio",
        "useful_growth_per_row_ratio",
    }
    for name in ratios:
        low, high = result[f"{name}_interval"]
        assert 0 < low <= result[name] <= high
    assert len(result["growth"]) == 4


def test_generated_play_has_runs_and_repeats_with_its_seed():
    play = bench.run_heavy_play(20_000)
    assert len(play) == 20_000
    assert 10 < len(play) / (play[1:] != play[:-1]).sum() < 30
    assert (bench.run_heavy_play(20_000) == play).all()
    assert (bench.run_heavy_play(20_000, seed=1) != play).any()
