"""`masp plot`: groups of seeds, their names, and mistakes."""

import json

import pytest

from masp.cli.main import main
from masp.config import replace
from masp.presets import from_preset
from masp.training.config_file import to_file


def make_run(folder, rows, **settings):
    """A run directory with a configuration and rows of metrics."""
    folder.mkdir(parents=True)
    config = replace(from_preset("planted", "planted-grid"), **settings).resolved()
    (folder / "config.json").write_text(json.dumps(to_file(config)))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def runs(tmp_path):
    for variant in ("macros", "masp"):
        for gamma in (0.9, 0.95):
            for seed in (0, 1):
                rows = [{"frames": 10 * i, "eval_success": 0.1 * i + seed, "decisions": [1, 2]} for i in (1, 2)]
                make_run(tmp_path / "runs" / f"{variant}-{gamma}-{seed}", rows, variant=variant, gamma=gamma, seed=seed)
    return tmp_path / "runs"


def test_seeds_are_a_band_and_names_are_what_differs(runs, tmp_path, capsys):
    out = tmp_path / "plot.png"
    assert main(["plot", str(runs), "--out", str(out), "--json"]) == 0
    curves = json.loads(capsys.readouterr().out)["curves"]["eval_success"]
    assert list(curves) == ["macros, gamma 0.9", "macros, gamma 0.95", "masp, gamma 0.9", "masp, gamma 0.95"]
    assert curves["masp, gamma 0.9"] == [[[10, 0.1], [20, 0.2]], [[10, 1.1], [20, 1.2]]]
    assert out.stat().st_size > 5000
    assert main(["plot", str(runs / "masp-0.9-0"), "--out", str(out), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["curves"]["eval_success"]) == ["masp"]


def test_names_with_markup_stay_text(tmp_path, capsys):
    for name in ("a=[red]", "a=$x_{$"):
        make_run(tmp_path / name, [{"frames": 1, "return": 0.0}], env_options=(name,))
    assert main(["plot", str(tmp_path), "--metric", "return", "--out", str(tmp_path / "p.png")]) == 0
    assert "2 runs in 2 groups" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--metric", "eval_sucess"], "did you mean eval_success?"),
        (["--metric", "decisions"], "no such number"),
        (["nowhere"], "nowhere: there is no such run directory"),
        (["--out", "plot.foo"], "a picture cannot be .foo"),
    ],
)
def test_mistakes_get_one_line(runs, arguments, says, capsys):
    assert main(["plot", str(runs), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_help_explains_the_metrics(runs, capsys):
    assert main(["plot", str(runs), "--metric", "help"]) == 0
    assert capsys.readouterr().out == "eval_success  share of evaluation episodes that succeeded\n"
