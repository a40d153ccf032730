"""Figures: clusters become neighbours, scales are not set by outliers, names stay text, columns keep their colour."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import masp.report.similarity_map as similarity_map_module
from masp.experiments.catalogue import NAMES, experiment
from masp.experiments.experiment import SCALES
from masp.experiments.plan import plan
from masp.report.charts import Point, bar_chart, line_chart, matrix_chart
from masp.report.figures import COLOURS, colour_of, draw_curves, learning_curves
from masp.report.similarity_map import cluster_order, nothing_learned, similarity_map


def test_clusters_become_neighbours():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(4), 6))
    similarity = np.where(groups[:, None] == groups[None], 0.8, 0.05)
    np.fill_diagonal(similarity, 1.0)
    ordered = groups[cluster_order(similarity)]
    assert sorted(cluster_order(similarity)) == list(range(24))
    assert np.count_nonzero(np.diff(ordered)) == 3


def test_curves_are_written(tmp_path):
    seeds = [[(0, 0.0), (10, 1.0)], [(1, 0.2), (11, 0.8), (20, 1.0)]]
    learning_curves({"masp": seeds}, tmp_path / "curve.png", "title", "success")
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_every_column_of_every_experiment_has_its_own_colour():
    columns = {cell.column for name in NAMES for scale in SCALES for cell in plan(experiment(name), scale).cells}
    assert columns <= set(COLOURS)
    rgb = np.array([to_rgb(colour_of(column)) for column in sorted(columns)])
    distances = np.linalg.norm(rgb[:, None] - rgb[None], axis=2)[~np.eye(len(rgb), dtype=bool)]
    assert distances.min() > 0.12
    assert colour_of("unknown") == colour_of("unknown") != colour_of("another")


def test_nothing_learned_is_said():
    flat = np.full((4, 4), 0.25)
    assert "nothing was learned" in nothing_learned(flat)
    assert "stands alone" in nothing_learned(np.eye(4))
    flat[0, 1] = flat[1, 0] = 0.9
    assert nothing_learned(flat) == ""
    assert "hardly anything" in nothing_learned(np.full((4, 4), 0.25) + 0.001 * np.arange(16).reshape(4, 4) / 16)


def drawn(monkeypatch, draw):
    """The figure that `draw` saves."""
    figures = []
    monkeypatch.setattr(similarity_map_module, "save_figure", lambda figure, path: figures.append(figure))
    draw()
    return figures[0]


def test_neither_the_diagonal_nor_an_outlier_sets_the_scale(monkeypatch):
    rng = np.random.default_rng(0)
    similarity = rng.uniform(0, 0.1, (80, 80))
    similarity = (similarity + similarity.T) / 2
    similarity[0, 1] = similarity[1, 0] = 0.9
    np.fill_diagonal(similarity, 1.0)
    names = [f"action {i}" for i in range(80)]
    figure = drawn(monkeypatch, lambda: similarity_map(similarity, names, "map.png", "title"))
    image = figure.axes[0].images[0]
    assert image.norm.vmax < 0.11 and image.get_array().mask.diagonal().all()
    assert figure.axes[1].get_label() == "<colorbar>" and image.colorbar.extend == "max"
    assert "the largest 0.9" in figure.get_supxlabel()


def test_odd_names_stay_text_in_pictures(tmp_path):
    odd = ["[red]", "[/]", "\x1b[31mx", "$x_{$", "_hidden", "a😀", "שלום", "<script>"]
    similarity = np.full((8, 8), 0.1) + 0.5 * np.kron(np.eye(4), np.ones((2, 2)))
    similarity_map(similarity, odd, tmp_path / "map.png", odd[3])
    learning_curves({name: [[(0, 0.0), (1, 0.0)]] for name in odd}, tmp_path / "curves.png", odd[3], odd[0])
    series = {name: {column: Point(1.0, 0.0, 2.0) for column in odd} for name in odd[:3]}
    bar_chart({odd[3]: series}, tmp_path / "bars.png", odd[3], odd[0])
    line_chart({odd[3]: {odd[4]: series}}, tmp_path / "lines.png", odd[3], odd[0], odd[5])
    matrix_chart({odd[3]: series}, tmp_path / "matrix.png", odd[3], odd[0])
    assert len(list(tmp_path.iterdir())) == 5


def test_a_line_at_zero_is_said_in_words(monkeypatch):
    figure = Figure()
    axes = figure.subplots()
    draw_curves(axes, {"rainbow": [[(0, 0.0), (10, 0.0)]], "_odd": [[(0, 0.0), (10, 1.0)]]}, "success")
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["rainbow (1 seed, 0 throughout)", " _odd (1 seed)"]
