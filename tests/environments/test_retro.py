"""One game in one emulator, for real: Airstriker, which comes with stable-retro."""

import gzip

import numpy as np
import pytest

pytest.importorskip("stable_retro")

import stable_retro as retro

from masp.environments.retro import ButtonChoices, IntegrationRules, RetroGame, Setting, View
from masp.environments.retro_games import button_choices, find_game, find_states

GAME = find_game("retro-Airstriker")
CHOICES = button_choices(GAME, ["LEFT", "RIGHT", "B"])


def make(states=None, repeat=4, noops=0, max_steps=1000, record=False, view=None):
    states = find_states(GAME, "") if states is None else states
    setting = Setting(GAME, states, view or View(84, True), repeat, noops, max_steps)
    return RetroGame(setting, ButtonChoices(CHOICES), IntegrationRules(), record)


@pytest.fixture
def game():
    env = make()
    yield env
    env.close()


def random_actions(count, seed=0):
    return np.random.default_rng(seed).integers(len(CHOICES), size=count).tolist()


def test_the_same_steps_as_stable_retro_frame_by_frame(game):
    actions = random_actions(400)
    game.reset(seed=0)
    steps = [game.step(action) for action in actions]
    game.close()
    plain = retro.make(GAME.id, use_restricted_actions=retro.Actions.ALL, render_mode="rgb_array")
    plain.reset()
    total = 0.0
    for action, (observation, reward, ended, cut, info) in zip(actions, steps, strict=True):
        mask = np.array([button in CHOICES[action] for button in plain.buttons], np.uint8)
        paid = 0.0
        for _ in range(4):
            picture, one, done, _, variables = plain.step(mask)
            paid += one
            if done:
                break
        np.testing.assert_array_equal(observation, View(84, True).of(picture))
        assert (reward, ended, cut, info) == (paid, done, False, variables)
        total += reward
        if done:
            break
    plain.close()
    assert done  # the last ship was lost
    assert total > 0


@pytest.mark.parametrize(("size", "grey", "shape"), [(7, True, (10, 16)), (12, False, (25, 31)), (5, False, (5, 30))])
def test_a_view_is_made_of_means(size, grey, shape):
    picture = np.random.default_rng(0).integers(256, size=(*shape, 3), dtype=np.uint8)
    fine = np.repeat(np.repeat(picture.astype(float), size, axis=0), size, axis=1)  # every pixel in size x size parts
    naive = fine.reshape(size, shape[0], size, shape[1], 3).mean(axis=(1, 3))
    naive = (naive @ [0.299, 0.587, 0.114])[..., None] if grey else naive
    seen = View(size, grey).of(picture)
    assert (seen.shape, seen.dtype) == (View(size, grey).shape, np.uint8)
    np.testing.assert_allclose(seen, naive, atol=0.5001)


def test_a_seed_draws_how_many_steps_nothing_happens():
    env = make(repeat=2, noops=3)
    env.reset(seed=0)
    starts = []
    for noops in range(4):
        env.retro.reset()
        for _ in range(2 * noops):
            env.retro.step(np.zeros(12, np.uint8))
        starts.append(View(84, True).of(env.render()).tobytes())
    assert len(set(starts)) == 4
    drawn = [env.reset(seed=seed)[0].tobytes() for seed in range(30)]
    assert set(drawn) == set(starts)
    assert env.reset(seed=5)[0].tobytes() == drawn[5]
    env.close()


def test_a_seed_draws_where_an_episode_begins(game, tmp_path):
    game.reset(seed=0)
    for action in random_actions(30):
        game.step(action)
    (tmp_path / "later.state").write_bytes(gzip.compress(game.retro.em.get_state(), 1))
    game.close()
    env = make(states=[*find_states(GAME, ""), tmp_path / "later.state"])
    starts = [env.reset(seed=seed)[0].tobytes() for seed in range(10)]
    assert len(set(starts)) == 2
    env.close()


def test_without_a_state_every_episode_begins_at_power_on():
    env = make(states=[], repeat=8)
    first, _ = env.reset(seed=0)
    pictures = [env.step(0)[0] for _ in range(20)]
    again, _ = env.reset(seed=0)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(pictures, [env.step(0)[0] for _ in range(20)])
    assert len({picture.tobytes() for picture in pictures}) > 1
    env.close()


def test_a_saved_episode_goes_on_exactly(game):
    actions = random_actions(400)
    game.reset(seed=0)
    saved, steps = {}, []
    for t, action in enumerate(actions):
        if t % 25 == 0:
            saved[t] = game.get_state()
        steps.append(game.step(action))
        if steps[-1][2]:
            break
    paid = [t for t, step in enumerate(steps) if step[1]]
    assert len(paid) > 3
    for begin, state in saved.items():
        game.reset(seed=1)
        game.step(1)
        game.set_state(state)
        for t in range(begin, min(begin + 30, len(steps))):
            observation, *rest = game.step(actions[t])
            np.testing.assert_array_equal(observation, steps[t][0])
            assert rest == list(steps[t][1:])
    game.close()
    elsewhere = make()  # as a resumed run does it
    elsewhere.reset(seed=0)
    elsewhere.set_state(saved[100])
    np.testing.assert_array_equal(elsewhere.step(actions[100])[0], steps[100][0])
    elsewhere.close()


def test_stable_retro_records_the_same_buttons_in_every_frame(tmp_path):
    env = make(repeat=2, record=str(tmp_path))
    env.reset(seed=0)
    actions = random_actions(40)
    for action in actions:
        env.step(action)
    env.retro.stop_record()
    env.close()
    (path,) = tmp_path.glob("*.bk2")
    movie = retro.Movie(str(path))
    frames = []
    while movie.step():
        frames.append({button for i, button in enumerate(env.retro.buttons) if movie.get_key(i, 0)})
    movie.close()
    assert frames[1:] == [set(CHOICES[action]) for action in actions for _ in range(2)]  # the first is the reset's
