"""`MaspDQN`: Stable-Baselines3's DQN with macros, penalty and learned similarity."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

import masp
from masp.errors import UserError
from masp.macros.wrapper import MacroActionEnv
from masp.sb3 import MacroReplayBuffer, MaspDQN

MACROS = masp.ActionSet(2, [(0, 1), (1, 1, 0)])
QUICK = {"buffer_size": 500, "learning_starts": 40, "train_freq": 1, "device": "cpu", "seed": 3}
QUICK |= {"target_update_interval": 50, "batch_size": 16}


def pole(gamma=0.99, macros=MACROS):
    return MacroActionEnv(Monitor(gymnasium.make("CartPole-v1")), macros, gamma)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.q_net.parameters()])


def test_without_a_penalty_it_is_dqn_with_the_buffer():
    ours = MaspDQN("MlpPolicy", pole(), penalty_weight=0.0, **QUICK).learn(150)
    theirs = DQN("MlpPolicy", pole(), replay_buffer_class=MacroReplayBuffer, **QUICK).learn(150)
    assert (weights(ours) == weights(theirs)).all()
    penalised = MaspDQN("MlpPolicy", pole(), **QUICK).learn(150)
    assert (weights(ours) != weights(penalised)).any()


def test_a_seed_repeats_and_another_differs():
    def train(seed):
        model = MaspDQN("MlpPolicy", pole(), **QUICK | {"seed": seed}).learn(120)
        return weights(model), model.similarity

    (one, similarity), (again, again_similarity), (other, _) = train(1), train(1), train(2)
    assert (one == again).all() and (similarity == again_similarity).all()
    assert (one != other).any()


def test_the_similarity_learns_and_stays_valid():
    model = MaspDQN("MlpPolicy", pole(), meta_learning_rate=0.01, meta_period_updates=2, **QUICK)
    before = model.similarity.copy()
    model.learn(200)
    after = model.similarity
    assert np.abs(after - before).max() > 0.01
    np.testing.assert_array_equal(after, after.T)
    assert (np.diagonal(after) == 1).all() and after.min() >= 0 and after.max() <= 1
    frozen = MaspDQN("MlpPolicy", pole(), meta_learning_rate=0.0, **QUICK).learn(100)
    np.testing.assert_array_equal(frozen.similarity, before)


def test_it_is_saved_and_loaded_by_stable_baselines(tmp_path):
    model = MaspDQN("MlpPolicy", pole(), meta_learning_rate=0.01, n_steps=2, **QUICK).learn(150)
    model.save(tmp_path / "model")
    loaded = MaspDQN.load(tmp_path / "model", env=pole(), device="cpu")
    assert (weights(loaded) == weights(model)).all()
    np.testing.assert_array_equal(loaded.similarity, model.similarity)
    assert loaded.actions == model.actions
    assert loaded.replay_buffer.n_steps == 2
    assert loaded.meta._adam.steps == model.meta._adam.steps > 0
    loaded.learn(100, reset_num_timesteps=False)
    assert np.abs(loaded.similarity - model.similarity).max() > 0
    alone = MaspDQN.load(tmp_path / "model", device="cpu")  # to predict, without an environment
    observation = np.zeros(4, np.float32)
    assert alone.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]
    assert alone.bundle().actions.sequences() == MACROS.sequences()
    other = masp.ActionSet(2, [(0, 0), (1, 1, 1)])
    with pytest.raises(UserError, match="trained with other macros than those of the environment"):
        MaspDQN.load(tmp_path / "model", env=pole(macros=other), device="cpu")
    with pytest.raises(UserError, match="trained with other macros"):
        loaded.set_env(pole(macros=other))


def test_logger_callbacks_and_evaluation_are_those_of_stable_baselines(tmp_path):
    env = make_vec_env("CartPole-v1", 2, wrapper_class=MacroActionEnv, wrapper_kwargs={"actions": MACROS})
    model = MaspDQN("MlpPolicy", env, **QUICK)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(300, callback=CheckpointCallback(100, str(tmp_path)), log_interval=1)
    model.logger.close()
    header = (tmp_path / "progress.csv").read_text().splitlines()[0].split(",")
    assert {"train/penalty", "train/similarity", "train/loss", "rollout/ep_rew_mean"} <= set(header)
    assert MaspDQN.load(tmp_path / "rl_model_200_steps", env=env).num_timesteps == 200
    mean, _ = evaluate_policy(model, env, n_eval_episodes=4)
    assert mean == pytest.approx(round(mean * 4) / 4)  # whole numbers of steps: not discounted


def test_a_missing_monitor_is_put_inside():
    model = MaspDQN("MlpPolicy", MacroActionEnv(gymnasium.make("CartPole-v1"), MACROS), **QUICK).learn(150)
    assert all(episode["r"] == episode["l"] for episode in model.ep_info_buffer)
    assert sum(episode["l"] for episode in model.ep_info_buffer) > 150


def test_a_similarity_can_be_given():
    bundle = MaspDQN("MlpPolicy", pole(), meta_learning_rate=0.01, meta_period_updates=1, **QUICK).learn(150).bundle()
    again = MaspDQN("MlpPolicy", pole(), similarity_start=bundle, meta_learning_rate=0.0, **QUICK)
    np.testing.assert_array_equal(again.similarity, bundle.similarity)
    wrong = masp.Bundle(masp.ActionSet(2, [(0, 0)]), np.eye(3, dtype=np.float32))
    with pytest.raises(UserError):
        MaspDQN("MlpPolicy", pole(), similarity_start=wrong, **QUICK)


class ShortNetwork(QNetwork):
    """One output too few."""

    def forward(self, obs):
        return super().forward(obs)[:, :-1]


class ShortPolicy(DQNPolicy):
    def make_q_net(self):
        return ShortNetwork(**self._update_features_extractor(self.net_args, features_extractor=None))


def test_mistakes_are_named():
    with pytest.raises(UserError, match=r"has no macros; wrap each environment in masp\.MacroActionEnv"):
        MaspDQN("MlpPolicy", "CartPole-v1", **QUICK)
    outside = Monitor(MacroActionEnv(gymnasium.make("CartPole-v1"), MACROS))
    with pytest.raises(UserError, match="Monitor is outside of MacroActionEnv"):
        MaspDQN("MlpPolicy", outside, **QUICK)
    with pytest.raises(UserError, match=r"MaspDQN has gamma 0\.9, but its MacroActionEnv 0\.99"):
        MaspDQN("MlpPolicy", pole(), gamma=0.9, **QUICK)
    from stable_baselines3.common.buffers import ReplayBuffer

    with pytest.raises(UserError, match=r"ReplayBuffer keeps no discounts of macros; use masp\.sb3\.MacroReplayBuffer"):
        MaspDQN("MlpPolicy", pole(), replay_buffer_class=ReplayBuffer, **QUICK)
    with pytest.raises(UserError, match="replay_buffer_class must be a class, not a str; use masp"):
        MaspDQN("MlpPolicy", pole(), replay_buffer_class="MacroReplayBuffer", **QUICK)
    with pytest.raises(UserError, match=r"shape \[1, 3\], expected"):
        MaspDQN(ShortPolicy, pole(), **QUICK)
    with pytest.raises(UserError, match="Adagrad"):
        MaspDQN("MlpPolicy", pole(), policy_kwargs={"optimizer_class": torch.optim.Adagrad}, **QUICK)
    for period in (0, 1.5):
        with pytest.raises(UserError, match=f"meta_period_updates must be a whole number of at least 1, got {period}"):
            MaspDQN("MlpPolicy", pole(), meta_period_updates=period, **QUICK)
    with pytest.raises(UserError, match="penalty_weight"):
        MaspDQN("MlpPolicy", pole(), penalty_weight=-1.0, **QUICK)
