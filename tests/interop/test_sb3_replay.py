"""Replay buffers for Stable-Baselines3 that keep the discount of each transition."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("stable_baselines3")
from stable_baselines3 import DQN
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.wrapper import MacroActionEnv
from masp.sb3 import MacroDictReplayBuffer, MacroReplayBuffer, StepBudget
from tape_env import TapeEnv

BOX, ACTIONS = spaces.Box(-1e6, 1e6, (1,), np.float32), spaces.Discrete(5)


def decisions(count, num_envs, seed):
    """Random decisions [count, N]: reward, discount, terminated, truncated; numbered observations."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 6, (count, num_envs))
    kind = rng.random((count, num_envs))
    terminated, truncated = kind < 0.15, (kind >= 0.15) & (kind < 0.3)
    return rng.normal(size=(count, num_envs)), np.where(terminated, 0.0, 0.9**steps), terminated, truncated


def fill(buffer, reward, discount, terminated, truncated):
    """Put decisions into a buffer as Stable-Baselines3 does; observation t of environment i is 100 t + i."""
    for t in range(len(reward)):
        infos = [
            {"discount": discount[t, i], "TimeLimit.truncated": bool(truncated[t, i])} for i in range(buffer.n_envs)
        ]
        now = 100.0 * t + np.arange(buffer.n_envs)[:, None]
        actions = np.full((buffer.n_envs, 1), t % 5)
        buffer.add(now, now + 50, actions, reward[t], terminated[t] | truncated[t], infos)


def naive(reward, discount, terminated, truncated, t, i, n, newest):
    """Return, discount, done and observation to bootstrap from of the n decisions from t on."""
    total, product = 0.0, 1.0
    for k in range(t, min(t + n, newest + 1)):
        total += product * reward[k, i]
        product *= discount[k, i]
        if terminated[k, i] or truncated[k, i]:
            break
    return total, product, float(terminated[k, i]), 100.0 * k + i + 50


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("count", [20, 47])  # the second wraps around
def test_returns_and_discounts_equal_naive_ones(n_steps, count):
    buffer = MacroReplayBuffer(60, BOX, ACTIONS, "cpu", n_envs=2, n_steps=n_steps)  # 30 rows
    script = decisions(count, 2, seed=n_steps)
    fill(buffer, *script)
    sample = buffer.sample(300)
    for b in range(300):
        t, i = divmod(int(sample.observations[b, 0]), 100)
        expected = naive(*script, t, i, n_steps, count - 1)
        found = (sample.rewards[b], sample.discounts[b], sample.dones[b], sample.next_observations[b])
        assert [float(x) for x in found] == pytest.approx(expected, rel=1e-5)
        assert int(sample.actions[b]) == t % 5
    assert len(np.unique(sample.observations)) > 30


def test_a_termination_in_the_last_allowed_step_does_not_bootstrap():
    buffer = MacroReplayBuffer(4, BOX, ACTIONS, "cpu")
    fill(buffer, np.ones((2, 1)), np.array([[0.0], [0.5]]), np.array([[True], [False]]), np.array([[False], [True]]))
    sample = buffer.sample(50)
    for reward, discount, done, now in zip(
        sample.rewards, sample.discounts, sample.dones, sample.observations, strict=True
    ):
        assert (float(reward), float(discount), float(done)) == ((1, 0.0, 1.0) if now == 0 else (1, 0.5, 0.0))


class TwoViews(gymnasium.ObservationWrapper):
    """An observation as a Dict."""

    def __init__(self, env):
        super().__init__(env)
        space = env.observation_space
        self.observation_space = spaces.Dict({"all": space, "first": spaces.Box(space.low[:1], space.high[:1])})

    def observation(self, observation):
        return {"all": observation, "first": observation[:1]}


MACROS = ActionSet(2, [(0, 1), (1, 1, 0)])


def test_dict_observations_have_the_same_samples():
    plain = MacroReplayBuffer(10, BOX, ACTIONS, "cpu")
    views = MacroDictReplayBuffer(10, spaces.Dict({"x": BOX}), ACTIONS, "cpu")
    script = decisions(8, 1, seed=0)
    fill(plain, *script)
    for t in range(8):
        infos = [{"discount": script[1][t, 0], "TimeLimit.truncated": bool(script[3][t, 0])}]
        now = np.array([[100.0 * t]])
        done = script[2][t] | script[3][t]
        views.add({"x": now}, {"x": now + 50}, np.array([[t % 5]]), script[0][t], done, infos)
    np.random.seed(0)
    one = plain.sample(20)
    np.random.seed(0)
    other = views.sample(20)
    assert (one.observations == other.observations["x"]).all()
    assert (one.next_observations == other.next_observations["x"]).all()
    for name in ("actions", "rewards", "dones", "discounts"):
        assert (getattr(one, name) == getattr(other, name)).all()


@pytest.mark.parametrize("kind", [MacroReplayBuffer, MacroDictReplayBuffer])
def test_dqn_fills_it_with_the_discounts_of_macros(kind):
    def make():
        env = Monitor(gymnasium.make("CartPole-v1"))
        return MacroActionEnv(TwoViews(env) if kind is MacroDictReplayBuffer else env, MACROS, gamma=0.9)

    policy = "MultiInputPolicy" if kind is MacroDictReplayBuffer else "MlpPolicy"
    model = DQN(
        policy, DummyVecEnv([make, make]), replay_buffer_class=kind, buffer_size=400, learning_starts=50, device="cpu"
    )
    model.learn(200)
    buffer = model.replay_buffer
    length = MACROS.lengths[buffer.actions[: buffer.pos, :, 0]]
    ended = buffer.dones[: buffer.pos] > 0
    discounts = buffer.discounts[: buffer.pos]
    np.testing.assert_allclose(discounts[~ended], 0.9 ** length[~ended], rtol=1e-6)
    assert ended.any() and not discounts[ended].any()  # CartPole's limit of 500 steps is far away
    assert sum(info["l"] for info in model.ep_info_buffer) > len(model.ep_info_buffer) * 5  # primitive steps


def test_monitor_inside_sees_the_returns_of_the_task():
    inside = MacroActionEnv(Monitor(TapeEnv([1.0, 10.0, 100.0])), ActionSet(3, [(0, 0)]), gamma=0.5)
    inside.reset(seed=0)
    inside.step(3)
    episode = inside.step(0)[4]["episode"]
    assert (episode["r"], episode["l"]) == (111.0, 3)
    outside = Monitor(MacroActionEnv(TapeEnv([1.0, 10.0, 100.0]), ActionSet(3, [(0, 0)]), gamma=0.5))
    outside.reset(seed=0)
    outside.step(3)
    episode = outside.step(0)[4]["episode"]
    assert (episode["r"], episode["l"]) == (106.0, 2)


def test_it_is_saved_and_loaded_by_stable_baselines(tmp_path):
    env = MacroActionEnv(Monitor(gymnasium.make("CartPole-v1")), MACROS)
    model = DQN("MlpPolicy", env, replay_buffer_class=MacroReplayBuffer, buffer_size=100, device="cpu")
    model.learn(80)
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    before = model.replay_buffer.discounts.copy()
    model.load_replay_buffer(tmp_path / "buffer.pkl")
    np.testing.assert_array_equal(model.replay_buffer.discounts, before)
    assert before.max() > 0.9


def test_a_budget_counts_primitive_steps():
    env = MacroActionEnv(Monitor(gymnasium.make("CartPole-v1")), MACROS)
    model, budget = DQN("MlpPolicy", env, buffer_size=100, learning_starts=1000, device="cpu"), StepBudget(150)
    model.learn(1000, callback=budget)
    assert 150 <= budget.steps <= 152
    assert budget.steps > model.num_timesteps > 0
    with pytest.raises(UserError, match="max_steps of at least 1, got 0"):
        StepBudget(0)


def test_mistakes_are_named():
    env = gymnasium.make("CartPole-v1")
    model = DQN("MlpPolicy", env, replay_buffer_class=MacroReplayBuffer, buffer_size=100, device="cpu")
    with pytest.raises(UserError, match=r"found no info\['discount'\]: wrap each environment in masp\.MacroActionEnv"):
        model.learn(10)
    with pytest.raises(UserError, match=r"found no info\['steps'\]"):
        DQN("MlpPolicy", env, buffer_size=100, device="cpu").learn(10, callback=StepBudget())
    with pytest.raises(UserError, match=r"keeps no Dict observations; use masp\.sb3\.MacroDictReplayBuffer"):
        MacroReplayBuffer(10, spaces.Dict({"x": BOX}), ACTIONS, "cpu")
    with pytest.raises(UserError, match="does not support optimize_memory_usage"):
        MacroReplayBuffer(10, BOX, ACTIONS, "cpu", optimize_memory_usage=True)
    with pytest.raises(UserError, match="n_steps must be at least 1, got 0"):
        MacroReplayBuffer(10, BOX, ACTIONS, "cpu", n_steps=0)
