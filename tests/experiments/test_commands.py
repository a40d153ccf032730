"""`masp reproduce`, `masp table` and `masp results` as a user calls them."""

import importlib.util
import json
from pathlib import Path

import pytest
from tiny_runs import full_record

from masp.cli.main import main
from masp.experiments.catalogue import NAMES, experiment
from masp.experiments.plan import plan, plan_data
from masp.experiments.store import Store


@pytest.fixture
def store(tmp_path):
    """A store with all records of `planted` at the scale smoke."""
    store = Store(tmp_path / "results")
    planned = plan(experiment("planted"), "smoke")
    store.write_plan("planted", "smoke", plan_data(planned))
    for unit in planned.units:
        for seed in unit.seeds:
            store.append([record(unit, seed)])
    return store.path


def record(unit, seed):
    value = 0.25 + 0.5 * seed
    return full_record(
        unit.trial_id,
        seed,
        label=unit.label,
        env=unit.trial.env,
        variant=unit.trial.variant,
        control=unit.trial.control,
        frames=unit.trial.frames,
        success=value,
        curve_frames=[6000, 12000],
        curve_success=[0.1, value],
        curve_return=[0.1, value],
        **{"return": value},
    )


@pytest.mark.parametrize("name", NAMES)
def test_plan_prints_without_running(name, tmp_path, capsys):
    assert main(["reproduce", name, "--plan", "--store", str(tmp_path / "none")]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{name}, scale smoke: ") and "estimate: " in text
    assert not (tmp_path / "none").exists()


def test_the_scale_paper_only_prints_its_plan(tmp_path, capsys):
    assert main(["reproduce", "atari", "--scale", "paper", "--store", str(tmp_path / "none")]) == 0
    text = capsys.readouterr().out
    assert "trials" in text and "frames" in text
    assert "cluster of 1,024 such cores (32 machines with 32 cores)" in text
    assert "nothing was run" in text
    assert not (tmp_path / "none").exists()


def test_the_plan_as_json(tmp_path, capsys):
    assert main(["reproduce", "atari", "--scale", "paper", "--json", "--store", str(tmp_path / "none")]) == 0
    figures = json.loads(capsys.readouterr().out)["plan"]
    # per game: Rainbow, its recorded agent, macros; 3 controls and masp with 5 reported seeds each, and their sweeps
    runs = 5 + 1 + 5 + 3 * (5 + 5 * 2) + (5 + 15 * 2)
    assert figures["runs"] == 54 * runs
    assert figures["frames"] == 54 * ((runs - 1) * 2_000_000_000 + 200_000_000)


def test_finished_units_are_not_run_again(store, capsys):
    assert main(["reproduce", "planted", "--store", str(store)]) == 0
    text = capsys.readouterr().out
    assert "0 runs left" in text
    assert "0.500" in text and "[0.250, 0.750]" in text


@pytest.mark.parametrize(("name", "module"), [("minigrid", "envpool"), ("minatar", "pgx"), ("atari", "ale_py")])
def test_a_missing_package_is_reported_before_anything_runs(name, module, tmp_path, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else find(name))
    assert main(["reproduce", name, "--store", str(tmp_path / "none")]) == 2
    assert f"needs the package {module}: pip install 'masp-rl[" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("flag", "expected"), [("--markdown", "| task |"), ("--latex", r"\begin{tabular}")])
def test_table_formats(store, capsys, flag, expected):
    assert main(["table", "planted", flag, "--store", str(store)]) == 0
    assert expected in capsys.readouterr().out


def test_table_as_json_with_figures(store, tmp_path, capsys):
    folder = tmp_path / "figures"
    assert main(["table", "planted", "--json", "--store", str(store), "--figures", str(folder)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["rows"][0]["cells"]["masp"]["mean"] == 0.5
    assert data["summary"]["against"]["macros"]["probability_of_improvement"][0] == 0.5
    assert sorted(data["figures"]) == sorted(str(file) for file in folder.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_without_results_the_table_has_the_papers_figures(name, tmp_path, capsys):
    assert main(["table", name, "--store", str(tmp_path / "none")]) == 0
    text = capsys.readouterr().out
    assert f"nothing was run yet: masp reproduce {name} --scale smoke" in text
    if experiment(name).paper_table:
        assert "paper " in text


def test_a_larger_scale_without_results_is_not_shown(store, capsys):
    Store(store).write_plan("planted", "paper", plan_data(plan(experiment("planted"), "paper")))
    assert main(["table", "planted", "--store", str(store)]) == 0
    text = capsys.readouterr().out
    assert "scale smoke shows that everything runs" in text
    assert "with fewer than 5 seeds" not in text and "beats" not in text  # nothing else is said about such figures


def test_a_changed_definition_is_reported(store, capsys):
    data = json.loads((store / "plans" / "planted-smoke.json").read_text())
    data["cells"].pop()
    (store / "plans" / "planted-smoke.json").write_text(json.dumps(data))
    assert main(["table", "planted", "--store", str(store)]) == 0
    assert "the definition of planted has changed since" in capsys.readouterr().out


def test_results_are_listed_and_filtered(store, capsys):
    command = ["results", "--store", str(store)]
    assert main(command) == 0
    assert "16 records" in capsys.readouterr().out
    assert main([*command, "--where", "control=masp", "seed=1", "--columns", "control", "seed", "hidden"]) == 0
    text = capsys.readouterr().out
    assert "1 records" in text and "masp" in text and "64" in text
    assert main([*command, "--where", "control=masp", "--json"]) == 0
    assert [record["seed"] for record in json.loads(capsys.readouterr().out)["records"]] == [0, 1]


def test_results_report_an_unfinished_line(store, capsys):
    file = next((store / "records").iterdir())
    file.write_text(file.read_text() + '{"trial"')
    assert main(["results", "--store", str(store)]) == 0
    assert "the last line is not finished; left out" in capsys.readouterr().err


def test_unreadable_lines_and_plans_are_reported_and_the_rest_is_shown(store, capsys):
    file = next((store / "records").iterdir())
    file.write_text("nonsense\n" + file.read_text())
    (store / "plans" / "planted-laptop.json").write_text("{")
    assert main(["table", "planted", "--store", str(store)]) == 0
    text = capsys.readouterr().out
    assert "0.500" in text and "[0.250, 0.750]" in text
    unwrapped = "".join(text.split())  # lines are folded, long paths in the middle
    assert f"{file},line1:notarecord(brokenJSON);leftout" in unwrapped
    assert f"{store / 'plans' / 'planted-laptop.json'}:line1:brokenJSON" in unwrapped


RESULTS = Path(__file__).parents[2] / "results"
PLANS = sorted(file.stem.removesuffix("-laptop") for file in (RESULTS / "plans").glob("*-laptop.json"))


@pytest.mark.parametrize("name", PLANS)
def test_results_of_earlier_versions_are_shown(name, capsys):
    """The store of the repository has plans and records of format 1."""
    assert main(["table", name, "--json", "--store", str(RESULTS)]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["scale"] == "laptop"
    assert any(cell["mean"] is not None for row in table["rows"] for cell in row["cells"].values())
    assert not any("left out" in note for note in table["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "nonsense"], "there is no 'nonsense'"),
        (["table", "planetd"], "did you mean planted?"),
        (["reproduce", "planted", "--jobs", "0"], "at least 1"),
        (["reproduce", "planted", "--human", "somewhere"], "does not take --human"),
        (["reproduce", "atari", "--human", "nowhere"], "there is no such folder"),
        (["results", "--store", "nowhere"], "there is no such results store"),
        (["results", "--store", ".", "--where", "nonsense"], "expected NAME=VALUE"),
        (["table", "planted", "--json", "--latex"], "not allowed with"),
    ],
)
def test_user_errors_print_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
