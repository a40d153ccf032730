"""Street Fighter II from its real start state, with a replacement for the program."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("stable_retro")

from pad_cartridge import insert_cartridge
from vectors import assert_equal, play, stack

from masp.environments import make_env
from masp.environments.registry import family_of, stated_options
from masp.environments.retro import RetroGame, Setting
from masp.environments.retro_games import find_game, find_states
from masp.environments.street_fighter import GAME, REPEAT, VIEW, Rounds
from masp.environments.street_fighter_moves import ADDRESSES, MOVES, Pad
from masp.errors import UserError
from masp.presets import PRESETS, SWEEPS, default_preset, from_preset


@pytest.fixture(scope="module")
def integrations(tmp_path_factory):
    return insert_cartridge(tmp_path_factory.mktemp("integrations"))


@pytest.fixture(scope="module")
def shared_game(integrations):
    game = find_game(GAME, integrations)
    setting = Setting(game, find_states(game, ""), VIEW, REPEAT, 0, 18_000, ADDRESSES)
    env = RetroGame(setting, Pad(), Rounds())
    yield env
    env.close()


@pytest.fixture
def game(shared_game):
    shared_game.reset(seed=0)
    return shared_game


def variables(health=176, enemy_health=176, matches_won=0, enemy_matches_won=0):
    return {
        "health": health,
        "enemy_health": enemy_health,
        "matches_won": matches_won,
        "enemy_matches_won": enemy_matches_won,
    }


def is_lost(rounds, **values):
    """Whether the episode terminates with these variables; the score is the reward."""
    reward, lost = rounds.judge(variables(**values), 300.0)
    assert reward == 300.0
    return lost


def test_rounds_by_hand():
    rounds = Rounds()
    rounds.begin(variables())
    assert not is_lost(rounds, health=3)
    assert not is_lost(rounds, enemy_health=-1)  # the opponent is down, but the count rises later
    assert not is_lost(rounds, enemy_health=-1, matches_won=1)
    assert rounds.won == 1
    assert not is_lost(rounds, matches_won=1)  # the second round
    assert not is_lost(rounds, matches_won=2)  # won by time
    assert rounds.won == 2
    assert not is_lost(rounds)  # against the next opponent, the game counts from 0
    assert not is_lost(rounds, matches_won=1)
    assert rounds.won == 3
    assert not is_lost(rounds, health=0, matches_won=1)  # not below zero
    assert is_lost(rounds, health=-1, matches_won=1)
    assert rounds.won == 3
    rounds.begin(variables())
    assert rounds.won == 0
    assert is_lost(rounds, enemy_matches_won=1)  # lost by time
    rounds.begin(variables())
    assert is_lost(rounds, health=-1, enemy_health=-1, matches_won=1, enemy_matches_won=1)
    assert rounds.won == 0
    rounds.begin(variables(matches_won=1, enemy_matches_won=1))  # a start state with one round each
    assert not is_lost(rounds, matches_won=1, enemy_matches_won=1)


def test_the_opponents_count_is_the_last_byte():
    rounds = Rounds()
    rounds.begin(variables())
    assert not is_lost(rounds, enemy_matches_won=0x01020300)
    assert is_lost(rounds, enemy_matches_won=0x01020301)


def test_rounds_as_reward():
    rounds = Rounds("rounds")
    rounds.begin(variables())
    counts = [0, 0, 1, 1, 2, 0, 0, 1]
    assert [rounds.judge(variables(matches_won=count), 300.0)[0] for count in counts] == [0, 0, 1, 0, 1, 0, 0, 1]
    assert rounds.judge(variables(health=-1, matches_won=2), 300.0) == (0.0, True)


def test_addresses_match_the_start_state(game):
    """Full health, Ryu to the left of Guile; the fighters' variables are 0x280 bytes apart."""
    _, info = game.reset(seed=0)
    assert (info["health"], info["enemy_health"], info["score"]) == (176, 176, 0)
    assert (info["x"], info["enemy_x"]) == (205, 307)
    variables = game.retro.data.list_variables()
    assert variables["enemy_health"]["address"] - variables["health"]["address"] == 0x280
    assert ADDRESSES["enemy_x"][0] - ADDRESSES["x"][0] == 0x280
    # Of the four bytes of `enemy_matches_won` the last has the same place in the opponent's record.
    assert variables["enemy_matches_won"]["address"] + 3 - variables["matches_won"]["address"] == 0x280


def test_observation_is_the_area_mean_of_the_picture(game):
    observation, _ = game.reset(seed=0)
    picture = game.render()
    assert (observation.shape, observation.dtype, picture.shape) == ((128, 128, 3), np.uint8, (200, 256, 3))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20  # not an empty screen
    pairs = picture.astype(float).reshape(200, 128, 2, 3).mean(axis=2)
    rows = np.repeat(pairs, 128, axis=0).reshape(128, 200, 128, 3).mean(axis=1)
    np.testing.assert_allclose(observation, rows, atol=1.0)


def test_score_as_reward(game):
    game.retro.data.set_value("score", 1500)
    _, reward, terminated, truncated, _ = game.step(0)
    assert (reward, terminated, truncated) == (1500.0, False, False)
    assert game.step(0)[1] == 0.0


@pytest.mark.parametrize(
    ("name", "value"), [("health", -1), ("enemy_matches_won", 1), ("continuetimer", 10), ("enemy_health", -1)]
)
def test_a_lost_round_terminates_the_episode(game, name, value):
    game.retro.data.set_value(name, value)
    _, _, terminated, truncated, info = game.step(0)
    assert info[name] == value
    assert terminated == (name != "enemy_health")
    assert not truncated


def test_an_episode_is_truncated_at_the_limit(game):
    game._setting = dataclasses.replace(game._setting, max_steps=3)
    try:
        assert [game.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
        game.reset(seed=0)
        game.step(0), game.step(0)
        game.retro.data.set_value("health", -1)
        assert game.step(0)[2:4] == (True, False)  # a termination is no truncation
    finally:
        game._setting = dataclasses.replace(game._setting, max_steps=18_000)


def test_a_saved_episode_keeps_stick_side_and_rounds(game):
    game.retro.data.set_value("x", 400)
    game.step(MOVES.index("2"))
    game.step(MOVES.index("3"))
    game.retro.data.set_value("matches_won", 1)
    game.step(MOVES.index("6"))
    memory = (game._controls.memory, game._rules.memory, game._steps)
    assert memory == ([MOVES.index("6"), 0], [1, 0, 1], 3)
    saved = game.get_state()
    game.reset(seed=1)
    assert (game._controls.memory, game._rules.memory, game._steps) == ([0, 1], [0, 0, 0], 0)
    game.set_state(saved)
    assert (game._controls.memory, game._rules.memory, game._steps) == memory
    assert game._variables["x"] == 400
    with pytest.raises(UserError, match="this version of stable-retro cannot read the state"):
        game.set_state(saved.partition(b"\n")[0] + b"\n" + b"x\x9cK\x04\x00\x00b\x00b")  # "a", compressed


def test_a_vector_of_emulators_resumes_exactly(integrations):
    options = [f"integrations={integrations}", "combos=II", "max_steps=7"]
    env = make_env("street-fighter", options, 2)
    try:
        assert (env.info.frames_per_step, env.info.max_episode_steps, len(env.info.actions)) == (2, 7, 15 + 24)
        first, actions, steps = play(env, 20, seed=3)
        assert (first.shape, first.dtype) == ((2, 128, 128, 3), np.uint8)
        assert (steps.truncated.sum(), steps.terminated.sum()) == (4, 0)
        snapshot = env.snapshot()
        later = stack(env, actions[:9])
        env.restore(3, snapshot)
        assert_equal(stack(env, actions[:9]), later)
    finally:
        env.close()


def test_options_of_states_and_characters(integrations):
    game = find_game(GAME, integrations)
    assert [path.stem for path in find_states(game, "*.RyuVs*")] == [
        "Champion.Level1.RyuVsGuile",
        "Swapped.Level1.RyuVsGuile",
    ]
    option = f"integrations={integrations}"
    assert make_env("street-fighter", [option, "character=Ryu"]).info.env_id == "street-fighter"
    with pytest.raises(UserError, match=r"no state '\*.KenVs\*'; there are Champion.Level1.RyuVsGuile, Swapped"):
        make_env("street-fighter", [option, "character=Ken"])
    with pytest.raises(UserError, match="give state or character, not both"):
        make_env("street-fighter", [option, "character=Ryu", "state=Champion.Level1.RyuVsGuile"])
    with pytest.raises(UserError, match="option reward must be score or rounds, got 'fame'"):
        make_env("street-fighter", [option, "reward=fame"])
    with pytest.raises(UserError, match="there is no such folder"):
        make_env("street-fighter", ["integrations=no-such-folder"])
    with pytest.raises(UserError, match="has no option 'colour'; it has combos, state, character, reward, noops"):
        make_env("street-fighter", ["colour=1"])


@pytest.mark.skipif(find_game(GAME).rom is not None, reason="the ROM is installed")
@pytest.mark.parametrize("env_id", ["street-fighter", GAME])
def test_a_missing_rom_is_named_with_the_command_that_imports_it(env_id):
    message = r"its ROM \(SHA-1 a5aad1d1\w{32}\) is not installed; .* DIR, then python -m stable_retro.import DIR$"
    with pytest.raises(UserError, match=message):
        make_env(env_id)


def test_preset_equals_the_papers_table():
    paper = {
        "stack": 4,
        "clip_rewards": True,
        "penalty_weight": 0.3,
        "meta_learning_rate": 0.001,
        "embedding": 16,
        "learning_rate": 1e-4,
        "batch_size": 32,
        "replay_steps": 500_000,
        "gamma": 0.99,
        "target_period_steps": 5_000,
        "epsilon": (1.0, 0.05),
        "epsilon_decay_steps": 200_000,
        "dueling": True,
        "num_atoms": 51,
        "frames": 500_000_000,
        # from the paper's table "used in all experiments"
        "max_gradient_norm": 10.0,
        "n_step": 3,
        "noisy": True,
        "value_range": (-10.0, 10.0),
        "priority_exponent": 0.5,
        "importance": (0.4, 1.0),
    }
    assert {name: PRESETS["paper-sf2"][name] for name in paper} == paper
    assert SWEEPS["paper-sf2"] == {"penalty_weight": (0.3, 0.5), "meta_learning_rate": (0.001, 0.003)}
    assert default_preset("street-fighter") == default_preset(GAME) == "paper-sf2"
    assert from_preset("auto", "street-fighter").agent.stack == 4


def test_environment_equals_the_papers_table(integrations):
    info = make_env("street-fighter", [f"integrations={integrations}"]).info
    assert (info.observation_shape, info.observation_kind) == ((128, 128, 3), "image")
    assert (info.frames_per_step, info.max_episode_steps, info.actions.num_primitives) == (2, 18_000, 15)
    assert info.actions.names[15] == "crouch-lp"  # set I
    assert info.success_above is None
    assert make_env("street-fighter", [f"integrations={integrations}", "reward=rounds"]).info.success_above == 0.0
    assert stated_options("street-fighter", ()) == ("combos=I",)
    family = family_of(GAME)
    assert (family.name, family.package, family.extra) == ("Street Fighter II", "stable_retro", "retro")
