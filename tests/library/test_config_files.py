"""Settings from files: `masp train --config FILE` and `masp.train(config=FILE)`."""

from __future__ import annotations

import pytest

import masp
from masp import UserError
from masp.cli.main import main
from masp.config import to_flat
from masp.presets import from_preset
from masp.training.api import make_config
from masp.training.config_file import read_config

TOML = """
env = "own_parts:make_corridor"
variant = "rainbow"
frames = 240
log_every_frames = 80
eval_every_frames = 80
num_envs = 2
eval_episodes = 2

[agent]
min_replay_steps = 40
epsilon = [1, 0.1]
steps_per_update = 8
hidden = 8
"""


@pytest.fixture
def toml(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(TOML)
    return file


def test_toml_changes_the_preset(toml):
    config = read_config(toml)
    assert (config.env, config.variant, config.frames) == ("own_parts:make_corridor", "rainbow", 240)
    assert (config.agent.epsilon, config.agent.hidden) == ((1.0, 0.1), 8)
    assert config.agent.batch_size == from_preset("gymnasium", config.env).agent.batch_size != 32
    assert read_config(toml, env="planted-grid").env == "planted-grid"
    assert read_config(toml, preset="minatar").agent.n_step == 3
    toml.write_text('preset = "minatar"\nenv = "planted-grid"')
    assert read_config(toml).agent.num_atoms == 51


def test_settings_by_keyword_come_after_the_file(toml):
    assert make_config(config=toml, frames=99).frames == 99
    assert make_config("planted-grid", config=toml).env == "planted-grid"


def test_the_command_line_and_python_do_the_same(toml, tmp_path):
    assert main(["train", "--config", str(toml), "--seed", "5", "--out", str(tmp_path / "one")]) == 0
    first = masp.load_run(tmp_path / "one")
    second = masp.train(config=first.path / "config.json", out=tmp_path / "two")
    assert to_flat(second.config) == to_flat(first.config) | {"out": str(tmp_path / "two")}
    clocks = {"seconds": 0, "frames_per_second": 0}
    assert [row | clocks for row in second.metrics] == [row | clocks for row in first.metrics]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", "env = ", "a.toml: broken TOML"),
        ("a.toml", "frames = 3", "a.toml: 'env' is missing"),
        ("a.toml", 'env = "x"\nframs = 3', "a.toml: there is no setting 'frams'; did you mean frames?"),
        ("a.toml", 'env = "planted-grid"\nframes = "3"', "a.toml: frames cannot be '3'"),
        ("a.toml", 'env = "planted-grid"\nframes = 0', "a.toml: frames must be at least 1, got 0"),
        ("a.toml", 'env = "planted-grid"\npreset = "x"', "a.toml: there is no preset 'x'"),
        ("a.toml", 'env = "planted-grid"\n[agnt]\nhidden = 3', "a.toml: there is no table 'agnt'; there are agent, s"),
        ("a.toml", 'env = "planted-grid"\nagent = 3', "a.toml: agent must be a table, got 3"),
        ("a.json", "{", "a.json: broken JSON"),
        ("a.json", '{"format": "other"}', "a.json: format is 'other', not 'masp-config'"),
        ("a.yaml", "", "a.yaml: expected the config.json of a run, or a TOML file"),
    ],
)
def test_mistakes_name_file_and_key(name, content, message, tmp_path, capsys):
    file = tmp_path / name
    file.write_text(content)
    assert main(["train", "--config", str(file)]) == 2
    line = capsys.readouterr().err
    assert f"{tmp_path}/{message}" in line and line.count("\n") == 1


def test_no_environment_and_no_file_get_one_line(capsys, tmp_path):
    assert main(["train"]) == 2
    assert "which environment?" in capsys.readouterr().err
    with pytest.raises(UserError, match="needs an environment"):
        masp.train()
    with pytest.raises(UserError, match=r"absent.toml: there is no such file"):
        masp.train(config=tmp_path / "absent.toml")
