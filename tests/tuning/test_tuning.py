"""Searching for settings: the space, the journal that workers share, pruning, and what comes out."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("optuna")
import optuna

from masp.cli.flags import from_text
from masp.cli.main import main
from masp.config import TrainConfig, replace, to_flat
from masp.errors import TrainingError, UserError
from masp.training.config_file import read_config
from masp.training.stopping import StoppedBySignal
from masp.tuning import outcome, search
from masp.tuning.search import FIRST_SEED, Judge, Search
from masp.tuning.space import Axis, default_axes, parse_axis, values_of

TINY = ("--env-options", "contexts=2", "groups=2", "copies=2", "--frames", "200", "--eval-every-frames", "100")
TINY += ("--log-every-frames", "50", "--min-replay-steps", "40", "--hidden", "8", "--num-envs", "2", "--num-atoms", "1")
TINY += ("--no-noisy", "--replay-steps", "200", "--eval-episodes", "4", "--target-period-steps", "50")
RATES = Axis("learning_rate", low=1e-5, high=1e-1)


def what(tmp_path, axes=(RATES,), seeds=2):
    config = replace(TrainConfig(env="planted-bandit"), learning_rate=1e-4, frames=400, eval_every_frames=100)
    return Search(config, tuple(axes), seeds, "eval_return", tmp_path)


def fake_training(config, what, number, judge, callbacks):
    """Four evaluations of every seed, best at a learning rate of 1e-3, in place of the runs of a trial."""
    del number, callbacks
    runs = [_View(what.out / str(seed), config) for seed in range(what.seeds)]
    judge.group = [run.path for run in runs]
    for _ in range(4):
        for run in runs:
            judge.on_evaluation(run, {"eval_return": -abs(math.log10(config.agent.learning_rate) + 3)})
        if judge.pruned:
            return


class _View:
    def __init__(self, path, config):
        self.path, self.config = path, config


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(search, "_train", fake_training)


def states(study):
    return [trial.state.name for trial in study.get_trials()]


def test_axes_are_read():
    assert parse_axis("learning-rate=1e-4:1e-2", from_text) == Axis("learning_rate", low=1e-4, high=1e-2)
    assert parse_axis("n_step=1,3", from_text) == Axis("n_step", choices=(1, 3))
    assert parse_axis("similarity_start=constant,overlap", from_text).choices == ("constant", "overlap")
    assert RATES.is_logarithmic and not Axis("gamma", low=0.9, high=0.99).is_logarithmic
    for text, message in {
        "learning_rate": "should look like",
        "nothing=1,2": "there is no such setting",
        "seed=1,2": "no such setting to search over",
        "learning_rate=1:0.1": r"the range 1:0\.1 is empty",
        "learning_rate=a:b": "must be a number",
        "double=true:false": "double must be one of true, false",
    }.items():
        with pytest.raises(UserError, match=message):
            parse_axis(text, from_text)
    with pytest.raises(UserError, match="only numbers have ranges"):
        Axis("double", low=0, high=1)


@pytest.mark.parametrize("variant", ["rainbow", "macros", "masp", "outcomes"])
def test_the_default_space_contains_the_preset(variant):
    config = replace(TrainConfig(env="planted-grid"), variant=variant, n_step=1)
    axes = default_axes(config)
    assert set(values_of(config, axes)) == {axis.name for axis in axes}
    assert ("penalty_weight" in values_of(config, axes)) == (variant in ("masp", "outcomes"))


def test_a_search_begins_with_the_preset_and_goes_on(tmp_path, fake):
    study = search.search(what(tmp_path), 6)
    trials = study.get_trials()
    assert trials[0].params == {"learning_rate": 1e-4}
    assert trials[0].value == pytest.approx(-1)
    assert len(trials) == 6
    again = search.search(what(tmp_path), 9)
    assert [trial.params for trial in again.get_trials()][:6] == [trial.params for trial in trials]
    assert len(again.get_trials()) == 9 and again.best_value > -1
    with pytest.raises(UserError, match=r"holds a search with other settings \(axes, seeds\); give the same ones"):
        search.search(what(tmp_path, [Axis("n_step", choices=(1, 3))], seeds=3), 9)
    longer = replace(what(tmp_path).config, frames=800)
    with pytest.raises(UserError, match=r"other settings \(frames\)"):
        search.search(Search(longer, (RATES,), 2, "eval_return", tmp_path), 9)


def test_a_single_worker_repeats_itself(tmp_path, fake):
    one, other = (search.search(what(tmp_path / name), 8) for name in "ab")
    assert [trial.params for trial in one.get_trials()] == [trial.params for trial in other.get_trials()]


def test_bad_trials_are_pruned(tmp_path, fake):
    study = search.search(what(tmp_path), 25)
    pruned = [trial for trial in study.get_trials() if trial.state.name == "PRUNED"]
    assert pruned and all(len(trial.intermediate_values) < 4 for trial in pruned)
    best = max(study.get_trials(), key=lambda trial: trial.intermediate_values[0])
    assert best.state.name == "COMPLETE"


def test_a_judge_averages_evaluations_and_seeds(tmp_path):
    reports = []

    class Trial:
        def report(self, value, step):
            reports.append((step, value))

        def should_prune(self):
            return len(reports) == 2

    config = TrainConfig(env="planted-bandit")
    judge, views = Judge(Trial(), what(tmp_path)), [_View(Path(name), config) for name in "ab"]
    judge.group = [view.path for view in views]
    for view, value in zip([*views, *views], [1.0, 3.0, 5.0, 7.0], strict=True):
        judge.on_evaluation(view, {"eval_return": value})
    assert reports == [(0, 2.0), (1, 4.0)]
    assert judge.pruned and judge.on_row(views[0], {}) and judge.score() == 4.0
    with pytest.raises(UserError, match="has no value for the metric eval_return"):
        judge.on_evaluation(views[0], {"eval_return": None})


def test_a_setting_that_diverges_is_a_bad_one(tmp_path, monkeypatch):
    def diverges(*arguments):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(search, "_train", diverges)
    study = search.search(what(tmp_path), 2)
    assert states(study) == ["PRUNED", "PRUNED"]
    assert study.get_trials()[0].user_attrs["error"] == "the loss is not finite"
    with pytest.raises(UserError, match="no trial has been completed"):
        outcome.best_config(study, what(tmp_path))


def test_an_interrupted_trial_is_done_again(tmp_path, monkeypatch, fake):
    search.search(what(tmp_path), 2)

    def interrupted(*arguments):
        raise StoppedBySignal(15, "stopped")

    monkeypatch.setattr(search, "_train", interrupted)
    with pytest.raises(StoppedBySignal):
        search.search(what(tmp_path), 4)
    monkeypatch.setattr(search, "_train", fake_training)
    study = search.search(what(tmp_path), 4)
    assert states(study)[2:4] == ["FAIL", "COMPLETE"]
    assert study.get_trials()[2].params == study.get_trials()[3].params
    assert states(study).count("FAIL") == 1 and len(states(study)) == 5
    assert [trial.number for trial in search.ended(study)] == [0, 1, 3, 4]


def test_the_preset_is_found_though_its_first_trial_failed(tmp_path, monkeypatch, fake):
    """Its settings are trained again under a later number; a range without it has no trial of the preset."""
    study = search.open_study(what(tmp_path))
    first = study.ask()
    RATES.suggest(first)
    search._give_back(study, first.number, first.params)
    study = search.search(what(tmp_path), 3)
    assert [trial.number for trial in outcome.preset_trials(study, what(tmp_path))] == [1]
    elsewhere = what(tmp_path / "elsewhere", [Axis("learning_rate", low=1e-3, high=1e-1)])
    assert outcome.preset_trials(search.search(elsewhere, 2), elsewhere) == []


WORKER = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
import test_tuning
from masp.tuning import search
def slow(*arguments):
    if {hang}:
        Path(sys.argv[1], "hangs").touch()
        time.sleep(3600)
    time.sleep(0.05)
    test_tuning.fake_training(*arguments)
search._train = slow
search.search(test_tuning.what(Path(sys.argv[1])), 8)
"""


def worker(folder, hang=False):
    paths = [str(Path(__file__).parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return subprocess.Popen([sys.executable, "-c", WORKER.format(paths=paths, hang=hang), str(folder)])


def test_workers_share_the_trials(tmp_path):
    workers = [worker(tmp_path), worker(tmp_path)]
    assert [process.wait() for process in workers] == [0, 0]
    study = search.open_study(what(tmp_path))
    assert [state in ("COMPLETE", "PRUNED") for state in states(study)] == [True] * len(states(study))
    assert len(states(study)) in (8, 9)  # both may have taken the last one at the same moment


def test_the_trial_of_a_killed_worker_is_done_by_another(tmp_path, fake):
    process = worker(tmp_path, hang=True)
    while not (tmp_path / "hangs").exists():
        assert process.poll() is None
    study = search.open_study(what(tmp_path))
    search.give_back_abandoned(study, tmp_path)
    assert states(study) == ["RUNNING"]  # its worker lives
    process.kill()
    process.wait()
    study = search.search(what(tmp_path), 3)
    assert states(study)[0] == "FAIL"
    assert study.get_trials()[1].params == study.get_trials()[0].params == {"learning_rate": 1e-4}
    assert len(states(study)) == 4


def test_the_winner_is_a_file_for_train(tmp_path, fake):
    settings = what(tmp_path, [RATES, Axis("n_step", choices=(1, 3))])
    study = search.search(settings, 10)
    file = outcome.write_best(study, settings, "planted")
    config = read_config(file)
    best = outcome.best_config(study, settings)
    ignored = ("seed", "out")
    assert {n: v for n, v in to_flat(config).items() if n not in ignored} == {
        n: v for n, v in to_flat(best).items() if n not in ignored
    }
    assert file.read_text().startswith(f"# Trial {study.best_trial.number} of ")
    shares = outcome.importances(study)
    assert set(shares) == {"learning_rate", "n_step"} and shares["learning_rate"] > shares["n_step"]
    assert outcome.draw(study, settings).read_bytes()[1:4] == b"PNG"


def test_the_command_searches_writes_and_checks(tmp_path, capsys):
    command = ["tune", "planted-bandit", "--trials", "2", "--seeds", "2", "--vary", "penalty_weight=0.01:1", *TINY]
    command += ["--check", "2", "--out", str(tmp_path), "--json"]
    # In a process of its own the compiled programs are kept: four runs compile one program.
    code = "import sys; from masp.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["trials"] == 2 and set(result["settings"]) == {"penalty_weight"}
    assert result["check"]["difference"] == pytest.approx(result["check"]["tuned"] - result["check"]["preset"])
    runs = sorted(path.name for path in (tmp_path / "trials" / "0001").iterdir())
    assert runs == [f"seed-{FIRST_SEED}", f"seed-{FIRST_SEED + 1}"]
    assert not list((tmp_path / "trials").rglob("checkpoints"))
    assert sorted(path.name for path in (tmp_path / "check" / "preset").iterdir()) == ["seed-0", "seed-1"]
    assert read_config(tmp_path / "best.toml").similarity.penalty_weight == result["settings"]["penalty_weight"]
    assert main(command) == 0  # nothing is left to do
    assert json.loads(capsys.readouterr().out)["check"] == result["check"]


def test_mistakes_are_one_line(tmp_path, capsys):
    for flags, message in {
        ("--trials", "0"): "--trials must be at least 1, got 0",
        ("--seeds", "0"): "--seeds must be at least 1, got 0",
        ("--vary", "n_step=1,3", "--vary", "n_step=1,5"): "--vary names a setting twice",
        ("--vary", "frames=1,3"): "there is no such setting to search over",
    }.items():
        assert main(["tune", "planted-bandit", "--out", str(tmp_path), *flags]) == 2
        assert message in capsys.readouterr().err
    assert optuna.logging.get_verbosity() >= optuna.logging.WARNING
