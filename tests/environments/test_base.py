"""Seeds of host environments, and the description of families and packages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.environments.base import Package, derived_seed, episode_seed
from masp.environments.episode_env import Outcome
from masp.environments.gymnasium_vector import GymVector
from masp.environments.processes import ProcessVector
from masp.environments.registry import FAMILIES, make_env
from masp.errors import UserError
from tape_env import TapeEnv

seeds = st.integers(0, 2**63)
purposes = st.sampled_from(["training", "evaluation"])


def is_evaluation(seed):
    """Which half of the 31-bit range a seed is in."""
    assert 0 <= seed < 2**31
    return seed >= 2**30


@given(seeds, purposes)
def test_training_and_evaluation_seeds_are_in_disjoint_halves(seed, purpose):
    assert is_evaluation(derived_seed(seed, purpose)) == (purpose == "evaluation")
    assert derived_seed(seed, purpose) == derived_seed(seed, purpose)


@given(seeds, purposes, st.integers(0, 10**6))
def test_consecutive_seeds_stay_in_their_half(seed, purpose, env):
    """A vector environment of another library gives environment i the seed `seed + i`."""
    assert is_evaluation(derived_seed(seed, purpose) + env) == (purpose == "evaluation")


@given(seeds, purposes, st.integers(0, 2**31), st.integers(0, 2**31))
def test_episode_seeds_stay_in_the_half_of_their_run(seed, purpose, env, episode):
    assert is_evaluation(episode_seed(derived_seed(seed, purpose), env, episode)) == (purpose == "evaluation")


def test_seeds_are_distinct():
    runs = {derived_seed(seed, purpose) for seed in range(300) for purpose in ("training", "evaluation")}
    assert len(runs) == 600
    episodes = {
        episode_seed(seed, env, episode) for seed in (0, 1, 2**40) for env in range(10) for episode in range(10)
    }
    assert len(episodes) == 300


def episode_seeds_in_vector(seed, monkeypatch):
    """The seeds with which a `GymVector` of three environments resets them, over several episodes."""
    seeds_used = []

    class Recorder(TapeEnv):
        def reset(self, *, seed=None, options=None):
            seeds_used.append(seed)
            return super().reset(seed=seed)

    vector = GymVector(Recorder, 3)
    vector.reset(seed)
    for _ in range(60):
        vector.step(np.zeros(3, int))
    return seeds_used


def episode_seeds_in_processes(seed, monkeypatch):
    """The same of a `ProcessVector`, without its processes."""
    seeds_used = []
    vector = ProcessVector(TapeEnv, 3, GymVector(TapeEnv).info)

    def answer(requests):
        seeds_used.extend(argument for _, argument in requests)
        return [Outcome() for _ in requests]

    monkeypatch.setattr(vector, "_start", lambda seed: setattr(vector, "_seed", seed))
    monkeypatch.setattr(vector, "_request", answer)
    vector.reset(seed)
    for _ in range(5):
        vector._episode += 1
        seeds_used.extend(vector._episode_seed(i) for i in range(3))
    return seeds_used


def envpool_seeds(env_id):
    """A function that returns the seeds that envpool receives."""

    def collect(seed, monkeypatch):
        envpool = pytest.importorskip("envpool")
        if env_id == "Breakout":
            pytest.importorskip("ale_py")
        seeds_used = []
        make = envpool.make_gymnasium

        def record(*args, env_seed, **kwargs):
            seeds_used.extend(int(seed) for seed in env_seed)
            return make(*args, env_seed=env_seed, **kwargs)

        monkeypatch.setattr(envpool, "make_gymnasium", record)
        make_env(env_id, ["backend=envpool"], 3).reset(seed)
        return seeds_used

    return collect


@pytest.mark.parametrize("purpose", ["training", "evaluation"])
@pytest.mark.parametrize(
    "collect",
    [episode_seeds_in_vector, episode_seeds_in_processes, envpool_seeds("FourRooms"), envpool_seeds("Breakout")],
    ids=["GymVector", "ProcessVector", "EnvPoolMiniGrid", "EnvPoolAtari"],
)
def test_vectors_seed_their_environments_within_the_half(collect, purpose, monkeypatch):
    for run in range(5):
        seeds_used = collect(derived_seed(run, purpose), monkeypatch)
        monkeypatch.undo()
        assert len(seeds_used) == len(set(seeds_used)) >= 3
        assert {is_evaluation(seed) for seed in seeds_used} == {purpose == "evaluation"}


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    missing = Package("no_such_module", "extra")
    assert not missing.installed
    with pytest.raises(UserError, match=r"^Thing needs the package no_such_module: pip install 'masp-rl\[extra\]'$"):
        missing.require_installed("Thing")


def test_examples_belong_to_their_family():
    for family in FAMILIES:
        for example in family.examples:
            assert next(other for other in FAMILIES if other.contains(example)) is family
