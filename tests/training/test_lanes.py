"""Runs that train together in one program do what each would do alone."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import masp
from masp.agent.agent import Agent
from masp.cli.main import main
from masp.config import replace
from masp.environments import make_env
from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.training.compiled import CompiledLoop
from masp.training.lanes import lane_actions, shared_config
from masp.training.train import train, train_runs


def test_lanes_equal_runs_alone(tiny_config, tmp_path):
    """Other weights, learning rates, starts, frozen or not: beside each other as by themselves.

    Every episode of the bandit is one step, so all lanes have played the same number of steps at every tick.
    """
    config = replace(tiny_config, env="planted-bandit", env_options=("contexts=2", "groups=2", "copies=2"))
    settings = [
        {"penalty_weight": 0.3, "meta_learning_rate": 0.01},
        {"penalty_weight": 0.1, "meta_learning_rate": 0.03, "similarity_start": "random", "seed": 1},
        {"penalty_weight": 0.3, "meta_learning_rate": 0.0, "similarity_start": "overlap", "seed": 2},
    ]
    lanes = [replace(config, **changes, out=str(tmp_path / f"lane-{i}")) for i, changes in enumerate(settings)]
    train_runs(lanes)
    for i, lane in enumerate(lanes):
        alone = masp.load_run(train(replace(lane, out=str(tmp_path / f"alone-{i}"))).run_dir)
        beside = masp.load_run(lane.out)
        assert beside.config == replace(alone.config, out=lane.out)
        assert len(beside.metrics) == len(alone.metrics) == 4 and beside.metrics[-1]["updates"] > 20
        names = ["frames", "updates", "episodes", "return", "td_loss", "penalty", "q_mean", "gradient_norm"]
        names += [] if lane.similarity.frozen else ["meta_gradient_norm"]
        for ours, theirs in zip(beside.metrics, alone.metrics, strict=True):
            for name in names:
                assert ours[name] == pytest.approx(theirs[name], rel=1e-3), name
        np.testing.assert_allclose(beside.similarity, alone.similarity, atol=1e-3)
    moved = [masp.load_run(lane.out).similarity for lane in lanes]
    assert not np.allclose(moved[0], moved[1], atol=1e-3)
    assert set(np.unique(moved[2])) <= {0.0, 1.0}  # overlap of single actions, frozen at its start


class FiveSteps:
    """A point on a line; every episode is cut after five steps."""

    info = EnvInfo("five-steps", (2,), np.dtype(np.float32), "vector", masp.ActionSet(2, []), max_episode_steps=5)

    def reset(self, key):
        del key
        return jnp.zeros(2), jnp.zeros(2)

    def step(self, state, action, key):
        state = state + jnp.array([2.0, 0.0]) * action + jnp.array([-1.0, 1.0])
        cut = state[1] == 5
        return state, state, state[0] / 5 + 0.1 * jax.random.normal(key), jnp.array(False), cut


def test_lanes_with_other_macros_equal_runs_alone(tiny_config):
    """Macros of the same lengths are data of a lane: acting, replay and credit inside macros use its own."""
    sets = [masp.ActionSet(2, [(0, 1), (1, 1, 0)]), masp.ActionSet(2, [(1, 0), (0, 0, 1)])]
    config = replace(tiny_config, intra_option=True, steps_per_update=2).resolved()
    configs = [replace(config, seed=seed) for seed in range(2)]

    def run(agent_actions, lanes):
        loop = CompiledLoop(Agent(config, FiveSteps.info, agent_actions), FiveSteps())
        state = loop.init([configs[i] for i in lanes], [sets[i] for i in lanes])
        state = loop.run(loop.run(state, 25, False), 30, True)
        return loop.checkpoints(state)

    for i, beside in enumerate(run(sets[0], [0, 1])):
        (alone,) = run(sets[i], [i])
        assert int(beside.agent.learner.updates) == int(alone.agent.learner.updates) > 20
        np.testing.assert_array_equal(beside.agent.macros.table, sets[i].table)
        np.testing.assert_array_equal(beside.agent.actor.usage, alone.agent.actor.usage)
        np.testing.assert_array_equal(beside.agent.memory.steps.primitive, alone.agent.memory.steps.primitive)
        for ours, theirs in zip(*(jax.tree.leaves(run.agent.learner.params) for run in (beside, alone)), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_lanes_are_judged_by_their_own_groups(tiny_config, tmp_path):
    """The groups of the task concern its own macros, not those of a file."""
    file = tmp_path / "macros.json"
    masp.ActionSet(4, [(0,), (1,), (3,), (2,)]).save(file)
    settings = [{"macros": str(file)}, {}, {"penalty_weight": 0.0}]
    lanes = [
        replace(tiny_config, frames=120, **changes, seed=seed, out=str(tmp_path / str(seed)))
        for seed, changes in enumerate(settings)
    ]
    summaries = [result.summary for result in train_runs(lanes)]
    assert [summary["similarity_auc"] is not None for summary in summaries] == [False, True, False]


def test_macros_of_other_lengths_are_refused(tiny_config, tmp_path):
    for name, macro in {"short": (0, 1), "long": (0, 1, 2)}.items():
        masp.ActionSet(4, [macro]).save(tmp_path / f"{name}.json")
    lanes = [replace(tiny_config, macros=str(tmp_path / f"{name}.json")) for name in ("short", "long")]
    with pytest.raises(UserError, match=r"long\.json: its macros have other lengths"):
        lane_actions(lanes, make_env(tiny_config.env, tiny_config.env_options).info)


def test_what_needs_another_program_is_refused(tiny_config):
    with pytest.raises(UserError, match="hidden 8 and 16 cannot train in one program"):
        shared_config([tiny_config, replace(tiny_config, hidden=16)])


def test_the_program_has_what_any_lane_needs(tiny_config):
    frozen, plain = replace(tiny_config, meta_learning_rate=0.0), replace(tiny_config, penalty_weight=0.0)
    assert shared_config([frozen]).similarity.frozen
    assert not shared_config([plain]).penalised
    shared = shared_config([frozen, plain, tiny_config])
    assert shared.penalised and not shared.similarity.frozen


SMALL = ["planted-grid", "--env-options", "size=4", "copies=2", "max_steps=6", "--frames", "120", "--hidden", "8"]
SMALL += ["--log-every-frames", "60", "--eval-every-frames", "0", "--eval-episodes", "4", "--min-replay-steps", "60"]
SMALL += ["--replay-steps", "300", "--num-envs", "3", "--steps-per-update", "6"]


def test_sweep_command(tmp_path, capsys):
    out = tmp_path / "sweep"
    vary = ["--vary", "penalty_weight=0,0.1", "--vary", "meta_learning_rate=0.001,0"]
    assert main(["sweep", *SMALL, *vary, "--seeds", "2", "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(p["penalty_weight"], p["meta_learning_rate"]) for p in found["points"]] == [
        (0.0, 0.001),
        (0.0, 0.0),
        (0.1, 0.001),
        (0.1, 0.0),
    ]
    assert len(list(out.glob("*/seed-*/summary.json"))) == 8
    run = masp.load_run(out / "penalty_weight=0.1,meta_learning_rate=0.0" / "seed-1")
    assert run.config.similarity.penalty_weight == 0.1 and run.config.seed == 1
    files = (out / "penalty_weight=0.1,meta_learning_rate=0.0").glob("seed-*/summary.json")
    successes = [json.loads(file.read_text())["eval_success"] for file in files]
    point = found["points"][-1]
    assert point["eval_success"] == pytest.approx(np.mean(successes))
    low, high = point["eval_success_interval"]
    assert min(successes) <= low <= point["eval_success"] <= high <= max(successes)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ("penalty=1", "there is no setting 'penalty'"),
        ("penalty_weight", "should look like"),
        ("penalty_weight=0.1,x", "must be a number"),
        ("penalty_weight=-1", "at least 0"),
        ("held_out=now", "must be one of separate, next"),
        ("seed=1,2", "cannot be swept"),
        ("env_options=a", "no values that can be listed"),
    ],
)
def test_bad_sweeps_get_one_line(vary, message, tmp_path, capsys):
    assert main(["sweep", *SMALL, "--vary", vary, "--out", str(tmp_path / "s")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
