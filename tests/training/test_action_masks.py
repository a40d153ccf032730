"""Whole runs under action masks: no forbidden action is ever played, by both loops, recordings and loaded agents."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from test_loops_agree import run_both

import masp
from masked_envs import ACTIONS, STEPS, JaxMaskedEnv, MaskedEnv
from masp.cli.main import main
from masp.config import replace
from masp.environments import make_env
from masp.errors import TrainingError, UserError
from masp.macros.recording import read_recording
from masp.training import array_file
from masp.training.jax_vector import JaxVector
from masp.training.record import RandomPolicy, play_episodes
from masp.training.run_dir import read_lines
from masp.training.train import train


@pytest.fixture
def config(tiny_config, tmp_path):
    ACTIONS.save(tmp_path / "macros.json")
    settings = {"env": "masked_envs:MaskedEnv", "env_options": (), "macros": str(tmp_path / "macros.json")}
    settings |= {
        "variant": "macros",
        "intra_option": True,
        "n_step": 2,
        "frames": 180,
        "log_every_frames": 90,
        "eval_every_frames": 90,
    }
    settings |= {"importance": (0.4, 0.4)}  # else an extended run has another schedule
    return replace(tiny_config, **settings, out=str(tmp_path / "run"))


def arrays_of(config):
    return array_file.read(f"{config.out}/policy.safetensors")[0]


def assert_same_run(one, other):
    for name, array in arrays_of(one).items():
        np.testing.assert_array_equal(array, arrays_of(other)[name], err_msg=name)
    assert timeless_rows(one) == timeless_rows(other)


def timeless_rows(config):
    rows = read_lines(Path(config.out, "metrics.jsonl"))
    return [{name: row[name] for name in row if name not in ("seconds", "frames_per_second")} for row in rows]


@pytest.mark.parametrize("macros_for", ["acting", "exploring"])
def test_both_loops_do_the_same_and_never_play_what_is_forbidden(tiny_config, macros_for):
    config = replace(tiny_config, n_step=2, macros_for=macros_for, intra_option=True, epsilon=(0.5, 0.5))
    compiled, host = run_both(config, 60, JaxMaskedEnv(), ACTIONS)
    for name in ("action", "span", "masks", "age"):
        np.testing.assert_array_equal(getattr(compiled.memory, name), getattr(host.memory, name))
    for agent in (compiled, host):
        assert np.asarray(agent.memory.reward).min() >= 0  # a forbidden action costs 100
        assert int(agent.tally.episodes) == int(agent.tally.judged) > 10
        assert 0 < int(agent.tally.successes) < int(agent.tally.episodes)
    lengths, discount = ACTIONS.lengths[np.asarray(host.memory.action)], np.asarray(host.memory.discount)
    one_step_short = np.isclose(discount, config.agent.gamma ** np.maximum(np.asarray(host.memory.span), 1))
    assert ((np.asarray(host.memory.span) < lengths) & one_step_short & (discount > 0)).any()  # macros were cut


def test_a_run_on_the_host_with_everything(config, tmp_path, capsys):
    """The environment raises if a forbidden action is played: in training, evaluation, recordings, or by the agent."""
    train(replace(config, frames=90))
    train(config, resume=True)
    straight = replace(config, out=str(tmp_path / "straight"))
    train(straight)
    assert_same_run(config, straight)
    rows = timeless_rows(config)
    shares = [(row["success"], row["episodes"]) for row in rows]
    shares += [(row["eval_success"], config.eval_episodes) for row in rows]
    assert all(0 <= share <= 1 and (share * count) % 1 == pytest.approx(0, abs=1e-4) for share, count in shares)
    assert any(0 < share < 1 for share, _ in shares)
    agent, env = masp.load_agent(config.out, epsilon=0.3), MaskedEnv()
    for seed in range(10):
        observation, info = env.reset(seed=seed)
        agent.reset()
        for _ in range(STEPS):
            observation, *_, info = env.step(agent.act(observation, info["action_mask"]))
    with pytest.raises(UserError, match=r"expected action masks of truth values of shape \(1, 3\), got int64\(1, 2\)"):
        agent.act(observation, [1, 1])
    with pytest.raises(UserError, match="the action mask of environment 0 allows no action"):
        agent.act(observation, [0, 0, 0])
    assert main(["eval", config.out, "--episodes", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["success"] in [n / 10 for n in range(11)]
    for policy in ("random", config.out):
        out = str(tmp_path / f"{len(policy)}.jsonl")
        assert main(["record", config.env, "--policy", policy, "--episodes", "20", "--out", out, "--json"]) == 0
        share = json.loads(capsys.readouterr().out)["success"]
        assert np.mean([episode.success for episode in read_recording(out)]) == pytest.approx(share)
        mined = ["mine", out, "--only-successful", "--k", "2", "--min-length", "2", "--out", out + ".json", "--json"]
        assert main(mined) == 0
        capsys.readouterr()


def test_masks_that_allow_everything_change_nothing(config):
    runs = [
        replace(config, env_options=(f"masks={masks}",), out=f"{config.out}-{masks}", epsilon=(0.5, 0.5))
        for masks in ("all", "none")
    ]
    for run in runs:
        train(run)
    assert_same_run(*runs)


def test_a_mask_that_allows_nothing_is_named(config):
    with pytest.raises(TrainingError) as caught:
        train(replace(config, env_options=("masks=empty",)))
    where = "masked_envs:MaskedEnv (training, step, tick 3 of this process): environment 0, after step 3 of its episode"
    assert str(caught.value) == f"{where}: the action mask allows no action"
    masp.environments.registry.register("jax-masked", JaxMaskedEnv(empty_at=5))
    with pytest.raises(
        TrainingError, match=r"^jax-masked: the action mask allows no action \(environment \d, after tick"
    ):
        train(replace(config, env="jax-masked", out=config.out + "-jax"))


def test_a_mask_that_allows_nothing_is_named_in_a_compiled_evaluation(config):
    masp.environments.registry.register("jax-masked", JaxMaskedEnv())
    train(replace(config, env="jax-masked"))
    masp.environments.registry.register("jax-masked", JaxMaskedEnv(empty_at=5))
    with pytest.raises(TrainingError, match=r"^jax-masked: the action mask allows no action \(evaluation episode \d"):
        masp.load_run(config.out).evaluate(64)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ("late", r'environment 0, after step 1 of its episode: info\["action_mask"\] must be there in every step and'),
        (
            "wide",
            r"environment 0, after step 0 of its episode: expected an action mask of 3 truth values, got bool\(4,\)",
        ),
    ],
)
def test_odd_masks_are_named(masks, message):
    env = make_env("masked_envs:MaskedEnv", [f"masks={masks}"], 2)
    with pytest.raises(UserError, match=message):
        place = env.reset(0).argmax(axis=1)
        env.step(np.where(place % 4 == 0, 1, 0))  # allowed


def test_masks_of_processes_and_of_a_real_environment():
    serial, processes = (make_env("Taxi-v4", (), 2, workers) for workers in (0, 1))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(serial.reset(3), processes.reset(3))
    for _ in range(20):
        assert serial.action_mask.shape == (2, 6) and not serial.action_mask.all()
        np.testing.assert_array_equal(serial.action_mask, processes.action_mask)
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in serial.action_mask])
        one, other = serial.step(actions), processes.step(actions)
        np.testing.assert_array_equal(one.action_mask, serial.action_mask)
        jax.tree.map(np.testing.assert_array_equal, one, other)
    processes.close()


def test_recordings_of_jax_environments_respect_masks():
    env, episodes = JaxVector(JaxMaskedEnv(), 2), []
    play_episodes(env, RandomPolicy(3, 2, seed=0), 12, 0, episodes.append, keep_observations=False)
    assert min(episode.score for episode in episodes) >= 0
    assert {episode.success(None) for episode in episodes} == {True, False}
