"""Macros in a vector of Gymnasium environments."""

from functools import partial

import gymnasium
import minigrid  # noqa: F401
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st

import naive_play
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.vector import MacroVectorEnv
from masp.macros.wrapper import MacroActionEnv
from tape_env import TapeEnv

N = 4
MACROS = ActionSet(3, [(0, 2, 1), (2, 1), (1, 0, 0, 1, 2)])


class Recorder(gymnasium.vector.VectorWrapper):
    """Keeps what the environments were given and what they gave."""

    def reset(self, **arguments):
        self.sent, self.given = [], []
        return super().reset(**arguments)

    def step(self, actions):
        self.sent.append(actions.copy())
        self.given.append(super().step(actions))
        return self.given[-1]


def tapes(mode=AutoresetMode.NEXT_STEP, vector=SyncVectorEnv):
    return vector([TapeEnv] * N, autoreset_mode=mode)


def play(env, choices, seed=0):
    """Observations [T + 1, N, ...] and the other parts of the steps, for `choices` [T, N]."""
    observation, _ = env.reset(seed=seed)
    steps = [env.step(row) for row in choices]
    observations = np.stack([observation, *[step[0] for step in steps]])
    return observations, [list(part) for part in zip(*steps, strict=True)][1:]


def expected(recorder, choices, actions, gamma, i):
    """The decisions and primitives of environment i by the naive reference."""
    ticks = [
        naive_play.Tick(int(choice[i]), float(given[1][i]), bool(given[2][i]), bool(given[3][i]), False)
        for choice, given in zip(choices, recorder.given, strict=True)
    ]
    return naive_play.play(ticks, actions.sequences(), gamma)


@given(
    macros=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=4),
    gamma=st.floats(0.0, 1.0),
    seed=st.integers(0, 1000),
)
def test_decisions_equal_those_of_the_naive_reference(macros, gamma, seed):
    actions, recorder = ActionSet(3, macros), Recorder(tapes())
    env = MacroVectorEnv(recorder, actions, gamma)
    choices = np.random.default_rng(seed).integers(len(actions), size=(40, N))
    observations, (reward, _, _, infos) = play(env, choices, seed)
    for i in range(N):
        decisions, primitives = expected(recorder, choices, actions, gamma, i)
        for sent, primitive in zip(recorder.sent, primitives, strict=True):
            assert primitive is None or sent[i] == primitive
        ends = {decision.last_tick: decision for decision in decisions}
        for tick, info in enumerate(infos):
            assert info["decided"][i] == (tick in ends)
            if tick not in ends:
                assert reward[tick][i] == 0.0
                continue
            decision = ends[tick]
            assert (info["action"][i], info["steps"][i]) == (decision.action, decision.steps)
            assert reward[tick][i] == pytest.approx(decision.reward)
            assert info["discount"][i] == pytest.approx(decision.discount)
            np.testing.assert_array_equal(info["observation"][i], observations[decision.first_tick, i])


def test_a_decision_is_due_exactly_where_one_begins():
    recorder = Recorder(tapes())
    env = MacroVectorEnv(recorder, MACROS)
    choices = np.random.default_rng(0).integers(len(MACROS), size=(60, N))
    _, infos = env.reset(seed=0)
    due = [infos["decision_due"]]
    for row in choices:
        due.append(env.step(row)[4]["decision_due"])
    for i in range(N):
        decisions, _ = expected(recorder, choices, MACROS, 0.99, i)
        begun = {decision.first_tick for decision in decisions}
        last = max(decision.last_tick for decision in decisions)  # a decision after it has not ended yet
        assert {tick for tick in range(last + 1) if due[tick][i]} == begun


# A forked process could deadlock where JAX has started its threads.
@pytest.mark.parametrize("vector", [SyncVectorEnv, partial(AsyncVectorEnv, context="spawn")], ids=["sync", "async"])
def test_each_environment_plays_as_if_it_were_alone(vector):
    """Decisions of one environment in the vector equal those of `MacroActionEnv` on a single one."""
    env = MacroVectorEnv(vector([lambda: gymnasium.make("CartPole-v1")] * 2), ActionSet(2, [(0, 1), (1, 1, 0)]), 0.9)
    choices = np.random.default_rng(1).integers(4, size=(30, 2))
    observations, (reward, terminated, _, infos) = play(env, choices, seed=5)
    env.close()
    for i in range(2):
        single = MacroActionEnv(gymnasium.make("CartPole-v1"), ActionSet(2, [(0, 1), (1, 1, 0)]), 0.9)
        first, _ = single.reset(seed=5 + i)
        np.testing.assert_array_equal(first, observations[0, i])
        for tick in range(30):
            if infos[tick]["decided"][i]:
                observation, own_reward, over, _, info = single.step(infos[tick]["action"][i])
                np.testing.assert_array_equal(observation, observations[tick + 1, i])
                assert (own_reward, over) == (pytest.approx(reward[tick][i]), terminated[tick][i])
                for name in ("discount", "steps", "raw_reward"):
                    assert infos[tick][name][i] == pytest.approx(info[name])
                if over:
                    break


def test_the_step_that_resets_gives_no_transition():
    env = MacroVectorEnv(SyncVectorEnv([lambda: TapeEnv([1.0, 10.0])] * 2), ActionSet(3, [(0, 0, 0)]), 0.5)
    env.reset(seed=0)
    _, _, _, _, infos = env.step(np.array([3, 0]))
    assert infos["decided"].tolist() == [False, True]
    observation, reward, terminated, _, infos = env.step(np.array([0, 1]))
    assert terminated.all() and infos["decided"].all() and not infos["decision_due"].any()
    assert reward.tolist() == [1.0 + 0.5 * 10.0, 20.0]
    assert infos["action"].tolist() == [3, 1]
    observation, reward, terminated, _, infos = env.step(np.array([2, 2]))  # only resets
    assert not infos["decided"].any() and infos["decision_due"].all() and not reward.any()
    assert observation[:, 0].tolist() == [0, 0]
    assert env.step(np.array([1, 1]))[1].tolist() == [2.0, 2.0]


def test_with_same_step_autoreset_the_final_observation_is_in_infos():
    recorder = Recorder(tapes(AutoresetMode.SAME_STEP))
    env = MacroVectorEnv(recorder, MACROS, 0.9)
    choices = np.random.default_rng(2).integers(len(MACROS), size=(40, N))
    observations, (reward, terminated, truncated, infos) = play(env, choices, seed=3)
    for i in range(N):
        tick = 0
        while tick < 40:  # decisions follow one another: no tick is idle
            length = len(MACROS.sequence(choices[tick][i]))
            over = [t for t in range(tick, min(tick + length, 40)) if (terminated[t] | truncated[t])[i]]
            last = over[0] if over else tick + length - 1
            if last >= 40:
                break
            played = [step[1][i] for step in recorder.given[tick : last + 1]]
            assert [t for t in range(tick, last + 1) if infos[t]["decided"][i]] == [last]
            assert reward[last][i] == pytest.approx(sum(0.9**k * r for k, r in enumerate(played)))
            np.testing.assert_array_equal(infos[last]["observation"][i], observations[tick, i])
            if over:
                assert infos[last]["final_obs"][i][0] > observations[last + 1, i, 0] == 0
            tick = last + 1


def test_a_partial_reset_begins_new_decisions_there_only():
    env = MacroVectorEnv(SyncVectorEnv([lambda: TapeEnv([1.0] * 9)] * 2), ActionSet(3, [(0, 0, 0)]))
    env.reset(seed=0)
    env.step(np.array([3, 3]))
    _, infos = env.reset(seed=1, options={"reset_mask": np.array([True, False])})
    assert infos["decision_due"].tolist() == [True, False]
    env.step(np.array([3, 3]))
    infos = env.step(np.array([0, 0]))[4]
    assert infos["decided"].tolist() == [False, True]
    assert infos["steps"][1] == 3


def test_observations_of_any_space():
    env = MacroVectorEnv(
        gymnasium.make_vec("MiniGrid-DoorKey-5x5-v0", 2, vectorization_mode="sync"), ActionSet(7, [(2, 2)])
    )
    first, _ = env.reset(seed=0)
    kept = first["image"].copy()
    env.step(np.array([7, 2]))
    infos = env.step(np.array([7, 2]))[4]
    assert infos["decided"].all()
    np.testing.assert_array_equal(infos["observation"]["image"][0], kept[0])
    assert infos["observation"]["mission"] == first["mission"]


def test_other_wrappers_of_vectors_fit():
    inside = MacroVectorEnv(RecordEpisodeStatistics(tapes()), MACROS, 0.9)
    inside.reset(seed=0)
    seen = [inside.step(np.full(N, 5))[4] for _ in range(12)]
    lengths = [info["episode"]["l"][info["_episode"]] for info in seen if "episode" in info]
    assert lengths and max(map(max, lengths)) > 1  # primitive steps
    listed = DictInfoToList(MacroVectorEnv(tapes(), MACROS))
    listed.reset(seed=0)
    infos = listed.step(np.array([0, 3, 3, 3]))[4]
    assert infos[0]["decided"] and infos[0]["steps"] == 1 and not infos[1]["decided"] and "steps" not in infos[1]


def test_a_seed_repeats_and_another_differs():
    choices = np.random.default_rng(0).integers(len(MACROS), size=(30, N))
    one, again, other = (play(MacroVectorEnv(tapes(), MACROS), choices, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_invalid_arguments_are_named():
    with pytest.raises(UserError, match=r"needs metadata.*NEXT_STEP or SAME_STEP"):
        MacroVectorEnv(tapes(AutoresetMode.DISABLED), MACROS)
    unstated = tapes()
    unstated.metadata = {}
    with pytest.raises(UserError, match="does not state its autoreset mode"):
        MacroVectorEnv(unstated, MACROS)
    with pytest.raises(UserError, match=r"needs a gymnasium\.vector\.VectorEnv, got TapeEnv"):
        MacroVectorEnv(TapeEnv(), MACROS)
    with pytest.raises(UserError, match=r"actions must be a masp\.ActionSet, got 'macros\.json'; make one with"):
        MacroVectorEnv(tapes(), "macros.json")
    with pytest.raises(UserError, match=r"made for 2 primitive actions, but .* has 3"):
        MacroVectorEnv(tapes(), ActionSet(2, [(0, 1)]))
    with pytest.raises(UserError, match=r"continuous actions \(Box\)"):
        MacroVectorEnv(gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync"), MACROS)
    env = MacroVectorEnv(tapes(), MACROS)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(2,\), expected \(4,\)"):
        env.step(np.array([0, 1]))
    with pytest.raises(ValueError, match=r"not all in 0\.\.5"):
        env.step(np.array([0, 1, 2, 6]))
    with pytest.raises(ValueError, match=r"not all in 0\.\.5"):
        env.step(np.array([0.0, 1.0, 2.0, 3.0]))
