"""What the terminal shows: tables that fit, progress lines, suggestions, and names that stay text."""

import io
import json
import sys
from dataclasses import replace as replace_fields
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from masp.cli.console import print_table
from masp.cli.main import main
from masp.cli.progress import TrainingColumn, TrainProgress, progress_line
from masp.config import replace
from masp.errors import did_you_mean
from masp.experiments.catalogue import experiment
from masp.experiments.display import Display
from masp.experiments.plan import plan
from masp.experiments.work import Outcome
from masp.presets import from_preset
from masp.training.callbacks import RunView

ROWS = [("alpha", "1", "long text of many words"), ("beta [red]x[/] \x1b[31m", "22", "[/]")]


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_table_fits_and_says_what_it_left_out(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(("name", "count", "remark"), ROWS, "a title", optional=("remark",), numbers=("count",))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width and not any(line.endswith(" ") for line in lines)
    text = "\n".join(lines)
    assert "[red]x[/]" in text.replace("\n", "") or width == 24  # folded there
    assert "\x1b" not in text
    assert ("not shown: remark" in " ".join(text.split())) == (width < 60)


def test_wide_and_piped_tables_have_everything(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("name", "count", "remark"), ROWS, wide=True, optional=("remark",))
    wide = capsys.readouterr().out
    monkeypatch.delenv("COLUMNS")
    print_table(("name", "count", "remark"), ROWS, optional=("remark",))
    assert capsys.readouterr().out == wide and "long text of many words" in wide


@pytest.mark.parametrize("width", [200, 80, 60, 40, 20])
def test_the_bar_keeps_its_numbers(width):
    parts = ["58,000/120,000", "success 0.93", "eval success 0.98", "10,123/s", "12 s left"]
    line = progress_line("planted-grid masp", 0.5, parts, width)
    assert len(line) <= max(width, 16) and "58,000/120,000" in line
    if width >= 80:
        assert all(part in line for part in parts)
    assert ("planted-grid masp" in line) == (width == 200)


class Terminal(io.StringIO):
    def isatty(self):
        return False


def test_without_a_terminal_every_row_is_one_line(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    config = replace(from_preset("auto", "planted-grid"), frames=200)
    views = [RunView(Path(f"seed-{i}"), config, None, dict, None) for i in range(2)]
    progress = TrainProgress("grid [red]")
    progress.on_progress(0, "compiling")
    progress.on_progress(0, "compiling")
    for view in views:
        progress.on_start(view)
    for frames in (100, 200):
        for i, view in enumerate(views):
            row = {"frames": frames + i, "return": 0.123456, "success": 0.5 * i, "eval_return": None}
            progress.on_row(view, row)
    lines = out.getvalue().splitlines()
    assert lines[0] == "grid [red]: compiling"
    assert len(lines) == 3  # one per row of the metrics, a mean over the runs that train together
    assert lines[1].startswith("grid [red]: 100/200 frames") and "success 0.25" in lines[1] and "mean of 2" in lines[1]


@pytest.mark.parametrize(
    ("name", "names", "says"),
    [
        ("breakot", ["Breakout", "Pong"], "did you mean Breakout?"),
        ("xyzzy", ["Breakout", "Pong"], "see the list"),
        ("penalty_wieght", ["penalty_weight", "entropy_weight"], "did you mean penalty_weight?"),
    ],
)
def test_suggestions(name, names, says):
    assert did_you_mean(name, names, "see the list") == says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trian"], "did you mean train?"),
        (["train", "planted-grid", "--varient", "masp"], "did you mean --variant?"),
        (["train", "planted-grid", "--variant", "maps"], "did you mean masp?"),
        (["train", "planted-grid", "--preset", "plantd"], "did you mean planted?"),
        (["sweep", "planted-grid", "--vary", "penalty_wieght=1"], "did you mean penalty_weight?"),
        (["similarity", "show", "x", "--pngg", "a"], "did you mean --png?"),
        (["envs", "Atarri"], "did you mean Atari?"),
        (["bench", "overhed"], "did you mean overhead?"),
    ],
)
def test_misspelt_names_get_a_suggestion(arguments, says, capsys):
    try:
        code = main(arguments)
    except SystemExit as left:
        code = left.code
    error = capsys.readouterr().err
    assert code == 2 and says in error and error.count("\n") == 1


def test_dry_run_says_where_each_setting_comes_from(tmp_path, capsys):
    file = tmp_path / "own.toml"
    file.write_text('env = "planted-grid"\nhidden = 32\n')
    command = ["train", "--config", str(file), "--paper", "--gamma", "0.9", "--variant", "macros", "--dry-run"]
    assert main([*command, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    settings = {name: (entry["value"], entry["from"]) for name, entry in about["settings"].items()}
    assert settings["gamma"] == (0.9, "flag")
    assert settings["hidden"] == (32, str(file))
    assert settings["batch_size"] == (64, "preset planted")
    assert settings["held_out"] == ("separate", "--paper")
    assert settings["penalty_weight"] == (0.0, "variant macros")
    assert settings["double"] == (True, "default")
    assert about["actions"] == 32 and about["estimated_seconds"] > 0
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "preset planted" in text and "estimated time" in text and "runs/planted-grid-macros-0" in text


def test_help_shows_the_values_for_an_environment(capsys):
    for arguments in (["train", "planted-grid", "--gamma", "0.5", "--help"], ["train", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
    with_env, without = capsys.readouterr().out.split("usage: masp train")[1:]
    with_env = " ".join(with_env.split())
    assert "[64; preset planted]" in with_env and "[0.5; flag]" in with_env
    assert "[64;" not in without


def bar_text(speed, completed=2_000):
    column = TrainingColumn()
    column.console_width = lambda: 200
    with Progress(column, console=Console(file=io.StringIO())) as bar:
        task = bar.add_task("grid", total=60_000, speed=speed, runs=3, figures=[], doing="learning")
        bar.update(task, completed=1_000)
        bar.update(task, completed=completed)  # at once, which says nothing about the speed
        return str(column.render(bar.tasks[0]))


def test_the_time_left_follows_from_the_speed_of_all_runs_since_the_last_row():
    assert bar_text(None).endswith("2,000/60,000")
    assert bar_text(6_000.0).endswith("2,000/60,000  6,000/s  29 s left")  # 3 runs of 58,000 frames
    assert bar_text(6_000.0, completed=60_000).endswith("60,000/60,000  6,000/s  done")


CODES = "x :fire: [red]y[/] \\"


def test_names_of_emoji_and_backslashes_are_text_in_tables(capsys):
    print_table((CODES,), [(CODES,)], CODES)
    assert capsys.readouterr().out.splitlines() == [CODES] * 3


def test_tags_right_to_left_text_and_overrides_are_text_in_tables(capsys):
    print_table(("name",), [("<script>\"'😀 שלום \u202eabc\x1b[31m",)])
    assert capsys.readouterr().out.splitlines()[1] == "<script>\"'😀 שלום \ufffdabc\ufffd[31m"


def test_names_of_emoji_and_escapes_are_text_in_the_lines_of_experiments(capsys):
    unit = replace_fields(plan(experiment("planted"), "smoke").units[0], label=CODES)
    with Display([unit], {}, 1) as display:
        display.ended(unit, Outcome(unit.id, "failed", "\x1b[31m"))
    assert f"{CODES}, seed" in (line := capsys.readouterr().err) and "FAILED: \ufffd[31m;" in line
