"""The config.json of a run: what it says, and older and newer files."""

from __future__ import annotations

import json

import pytest

import masp
from masp.cli.main import main
from masp.config import TrainConfig, from_flat, replace, to_flat
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.training.config_file import from_file, to_file
from masp.training.run_dir import RunDir
from masp.training.train import train

CONFIG = TrainConfig(env="planted-grid")
OLD = {
    # All that a file of the older form said besides settings that have kept their names.
    "bundle": "", "mine_every_frames": 0, "mine_replace_share": 0.25, "mine_top_share": 0.25, "mine_from": "play",
    "tensorboard": False, "v_min": -1.0, "v_max": 2.0, "prioritised": True, "importance_start": 0.5,
    "importance_end": 0.75, "epsilon_start": 1.0, "epsilon_end": 0.125, "half_precision": False, "windows": "decisions",
    "full_weight_actions": 0, "penalty_form": "row", "similarity_from": "meta", "similarity_start_value": 0.008,
    "learn_similarity": True, "trace_decay": 0.9,
}  # fmt: skip


def old_file(**changes):
    """A file of the older form."""
    new_names = ("value_range", "importance", "epsilon")
    kept = {name: value for name, value in to_flat(CONFIG).items() if name not in new_names}
    return {**kept, **OLD, **changes}


def read(values, actions=8):
    return from_file(json.loads(json.dumps(values)), "config.json", lambda: actions)


def test_written_and_read():
    values = to_file(CONFIG)
    header = {name: values[name] for name in ("format", "version", "masp", "kernels")}
    assert header.pop("kernels")
    assert header == {"format": "masp-config", "version": 2, "masp": masp.__version__}
    assert read(values) == CONFIG


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**to_file(CONFIG), "version": 3}, "version 3 is newer than 2, which this masp reads"),
        ({**to_file(CONFIG), "format": "masp-macros"}, "format is 'masp-macros', not 'masp-config'"),
        ({**to_file(CONFIG), "gama": 1}, "there is no setting 'gama'"),
        ([1, 2], "not the configuration of a run"),
        (
            {**to_file(CONFIG), "demonstration_share": 0.5},
            "demonstration_share is always 0.25 now, got 0.5",
        ),
        ({**OLD, "windows": "steps"}, "an older masp with windows steps, a setting that no longer exists"),
        ({**OLD, "half_precision": True}, "with half_precision True, a setting that no longer exists"),
        ({**OLD, "mine_every_frames": 500}, "with mine_every_frames 500, a setting that no longer exists"),
        ({**OLD, "trace_decay": 0.5, "trace_length": 2}, "with trace_decay 0.5, a setting that no longer exists"),
    ],
)
def test_files_that_cannot_be_read_get_one_line(values, message):
    with pytest.raises(UserError, match=f"^config.json: .*{message}") as error:
        read(values)
    assert "\n" not in str(error.value)


def test_a_setting_that_is_a_constant_now_is_left_out():
    assert read({**to_file(CONFIG), "demonstration_share": 0.25}) == CONFIG


def test_older_files_are_translated():
    pairs = {"value_range": (-1.0, 2.0), "importance": (0.5, 0.75), "epsilon": (1.0, 0.125)}
    assert read(old_file()) == replace(CONFIG, penalty_form="sum", **pairs)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"prioritised": False}, {"priority_exponent": 0.0}),
        ({"learn_similarity": False}, {"meta_learning_rate": 0.0}),
        ({"similarity_from": "outcomes", "n_step": 1}, {"variant": "outcomes", "n_step": 1}),
        ({"similarity_from": "outcomes", "variant": "macros"}, {"variant": "macros"}),
        ({"bundle": "b.safetensors"}, {"macros": "b.safetensors", "similarity_start": "b.safetensors"}),
        ({"bundle": "b.safetensors", "variant": "macros"}, {"macros": "b.safetensors", "variant": "macros"}),
        ({"penalty_form": "literal"}, {"penalty_form": "literal"}),
        ({"full_weight_actions": 4, "penalty_weight": 0.5}, {"penalty_weight": 0.25}),
        ({"full_weight_actions": 128, "penalty_weight": 0.5}, {"penalty_weight": 0.5}),
        ({"trace_decay": 0.5}, {}),
        ({"tensorboard": True, "similarity_start_value": 0.3}, {}),
    ],
)
def test_older_settings_by_their_names_of_today(old, new):
    assert read(old_file(**old)) == replace(read(old_file()), **new)


def test_an_older_run_is_opened_evaluated_and_shown(tiny_config, tmp_path, capsys):
    """The same run with its config.json in the older form."""
    run = RunDir(train(replace(tiny_config, frames=120, penalty_form="sum", out=str(tmp_path / "run"))).run_dir)
    config = masp.load_run(run.path).config
    old = {
        name: value for name, value in to_flat(config).items() if name not in ("value_range", "importance", "epsilon")
    }
    names = ("v_min", "v_max", "importance_start", "importance_end", "epsilon_start", "epsilon_end")
    numbers = [*config.agent.value_range, *config.agent.importance, *config.agent.epsilon]
    run.config_file.write_text(json.dumps({**old, **OLD, **dict(zip(names, numbers, strict=True))}))
    assert masp.load_run(run.path).config == config
    assert main(["eval", str(run.path), "--episodes", "4"]) == 0
    assert main(["similarity", "show", str(run.path)]) == 0
    capsys.readouterr()
    run.config_file.write_text(json.dumps({**json.loads(run.config_file.read_text()), "windows": "steps"}))
    assert main(["eval", str(run.path)]) == 2
    error = capsys.readouterr().err
    assert "windows steps, a setting that no longer exists" in error and error.count("\n") == 1


def test_actions_are_counted_only_where_the_penalty_depends_on_them(tmp_path):
    run = RunDir(tmp_path)
    run.config_file.write_text(json.dumps(old_file(full_weight_actions=1, penalty_weight=0.5)))
    ActionSet(4, [(0, 1)]).save(run.actions_file)
    assert run.read_config().similarity.penalty_weight == 0.1
    run.actions_file.unlink()
    run.config_file.write_text(json.dumps(old_file()))
    assert run.read_config() == from_flat(to_flat(read(old_file())))
