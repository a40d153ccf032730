"""`init_from`: what a run takes over from another one, and what it says about the rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import masp
from masp.agent.agent import Agent
from masp.config import replace
from masp.environments import make_env
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.training import array_file
from masp.training.initial import messages_for, parameters_for
from masp.training.lanes import resolve_actions, start_of
from masp.training.train import train


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    return tmp_path_factory.mktemp("grid")


@pytest.fixture
def source(tiny_config, grid):
    """A finished run of `masp` with two macros; trained once."""
    out, macros = grid / "run", grid / "macros.json"
    config = replace(tiny_config, macros=str(macros), frames=120, out=str(out))
    if not out.exists():
        ActionSet(4, [(0, 1), (2, 2, 3)]).save(macros)
        train(config)
    return config


def agent_of(config):
    info = make_env(config.env, config.env_options).info
    return Agent(config, info, resolve_actions(config, info))


def policy_of(config):
    return array_file.read(Path(config.out) / "policy.safetensors")[0]


def test_a_run_begins_with_the_whole_agent(source, tmp_path):
    config = replace(source, macros="", init_from=source.out, seed=5, out=str(tmp_path / "run"))
    agent = agent_of(config)
    assert agent.actions.sequences()[4:] == [(0, 1), (2, 2, 3)]
    _, start = start_of(config, agent, agent.actions)
    stored = policy_of(source)
    np.testing.assert_array_equal(start.similarity, stored["['similarity']"])
    assert {"['params']" + name for name in start.params} == {name for name in stored if name.startswith("['params']")}
    assert messages_for(agent) == [f"{source.out}: parameters of 6 of 6 layers taken"]


def test_its_first_evaluation_is_that_of_the_source(source, tmp_path):
    """Learning rates of almost nothing: the run ends with the parameters that it began with."""
    config = replace(source, macros="", init_from=source.out, out=str(tmp_path / "run"), learning_rate=1e-30)
    train(replace(config, meta_learning_rate=0.0))
    stored, kept = policy_of(source), policy_of(config)
    for name, array in stored.items():
        np.testing.assert_allclose(kept[name], array, rtol=0, atol=1e-12)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["updates"] == 0 and rows[0]["eval_return"] is not None
    episodes = [masp.load_run(run.out).evaluate(16, seed=1) for run in (source, config)]
    np.testing.assert_array_equal(episodes[0], episodes[1])


def test_layers_of_another_shape_are_new_and_named(source):
    config = replace(source, macros="", init_from=source.out, embedding=6)
    agent = agent_of(config)
    taken, lines = parameters_for(agent), messages_for(agent)
    assert not any("embedding" in name or "hidden" in name for name in taken)
    assert any("advantage_out" in name for name in taken)
    assert any("not the layer embedding, of shape" in line and "there and" in line for line in lines)


def test_macros_and_similarity_for_other_actions_stay_behind(source):
    config = replace(source, env="CartPole-v1", env_options=(), macros="", init_from=source.out)
    lines = messages_for(agent_of(config))
    assert any("not its macros, which are for 4 primitive actions, and CartPole-v1 has 2" in line for line in lines)
    assert any("not its similarity: it is for other actions" in line for line in lines)


def test_another_start_of_the_similarity_is_respected(source):
    config = replace(source, macros="", init_from=source.out, similarity_start="identity")
    agent = agent_of(config)
    _, start = start_of(config, agent, agent.actions)
    np.testing.assert_array_equal(start.similarity, np.eye(6))


def test_a_run_that_does_not_exist_is_named(source, tmp_path):
    with pytest.raises(UserError, match="there is no policy; a run writes it at its first evaluation"):
        agent_of(replace(source, macros="", init_from=str(tmp_path)))
    with pytest.raises(UserError, match="absent: there is no such run directory or policy file"):
        agent_of(replace(source, macros="", init_from=str(tmp_path / "absent")))
