"""Street Fighter II as an environment, played from its real initial state; only the program is a stand-in."""

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
    found = find_game(GAME, integrations)
    setting = Setting(found, find_states(found, ""), VIEW, REPEAT, 0, 18_000, ADDRESSES)
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


def over(rounds, **values):
    """Whether the episode ends in this state; points go through untouched."""
    reward, lost = rounds.judge(variables(**values), 300.0)
    assert reward == 300.0
    return lost


def test_rounds_by_hand():
    rounds = Rounds()
    rounds.begin(variables())
    assert not over(rounds, health=3)
    assert not over(rounds, enemy_health=-1)  # the opponent is down, the count comes later
    assert not over(rounds, enemy_health=-1, matches_won=1)
    assert rounds.won == 1
    assert not over(rounds, matches_won=1)  # the second round
    assert not over(rounds, matches_won=2)  # won by time
    assert rounds.won == 2
    assert not over(rounds)  # the next opponent: the game counts from 0 again
    assert not over(rounds, matches_won=1)
    assert rounds.won == 3
    assert not over(rounds, health=0, matches_won=1)  # nearly
    assert over(rounds, health=-1, matches_won=1)
    assert rounds.won == 3
    rounds.begin(variables())
    assert rounds.won == 0
    assert over(rounds, enemy_matches_won=1)  # lost by time
    rounds.begin(variables())
    assert over(rounds, health=-1, enemy_health=-1, matches_won=1, enemy_matches_won=1)
    assert rounds.won == 0
    rounds.begin(variables(matches_won=1, enemy_matches_won=1))  # a state in the middle of a fight
    assert not over(rounds, matches_won=1, enemy_matches_won=1)


def test_rounds_take_the_last_byte_of_the_opponents_count():
    rounds = Rounds()
    rounds.begin(variables())
    assert not over(rounds, enemy_matches_won=0x01020300)
    assert over(rounds, enemy_matches_won=0x01020301)


def test_rounds_can_be_the_reward():
    rounds = Rounds("rounds")
    rounds.begin(variables())
    counts = [0, 0, 1, 1, 2, 0, 0, 1]
    assert [rounds.judge(variables(matches_won=count), 300.0)[0] for count in counts] == [0, 0, 1, 0, 1, 0, 0, 1]
    assert rounds.judge(variables(health=-1, matches_won=2), 300.0) == (0.0, True)


def test_the_initial_state_is_where_the_addresses_say(game):
    """Both at full health, Ryu to the left of Guile; the two records are 0x280 apart in every variable."""
    _, info = game.reset(seed=0)
    assert (info["health"], info["enemy_health"], info["score"]) == (176, 176, 0)
    assert (info["x"], info["enemy_x"]) == (205, 307)
    known = game.retro.data.list_variables()
    assert known["enemy_health"]["address"] - known["health"]["address"] == 0x280
    assert ADDRESSES["enemy_x"][0] - ADDRESSES["x"][0] == 0x280
    # Of the four bytes of `enemy_matches_won` the last has the same place in the opponent's record.
    assert known["enemy_matches_won"]["address"] + 3 - known["matches_won"]["address"] == 0x280


def test_the_picture_is_the_integrations_with_every_pixel_a_mean(game):
    observation, _ = game.reset(seed=0)
    picture = game.render()
    assert (observation.shape, observation.dtype, picture.shape) == ((128, 128, 3), np.uint8, (200, 256, 3))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20  # not an empty screen
    pairs = picture.astype(float).reshape(200, 128, 2, 3).mean(axis=2)
    rows = np.repeat(pairs, 128, axis=0).reshape(128, 200, 128, 3).mean(axis=1)
    np.testing.assert_allclose(observation, rows, atol=1.0)


def test_the_reward_is_the_score(game):
    game.retro.data.set_value("score", 1500)
    _, reward, ended, cut, _ = game.step(0)
    assert (reward, ended, cut) == (1500.0, False, False)
    assert game.step(0)[1] == 0.0


@pytest.mark.parametrize(
    ("name", "value"), [("health", -1), ("enemy_matches_won", 1), ("continuetimer", 10), ("enemy_health", -1)]
)
def test_a_lost_round_ends_the_episode_at_once(game, name, value):
    game.retro.data.set_value(name, value)
    _, _, ended, cut, info = game.step(0)
    assert info[name] == value
    assert ended == (name != "enemy_health")
    assert not cut


def test_an_episode_is_cut_at_its_last_step(game):
    game._setting = dataclasses.replace(game._setting, max_steps=3)
    try:
        assert [game.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
        game.reset(seed=0)
        game.step(0), game.step(0)
        game.retro.data.set_value("health", -1)
        assert game.step(0)[2:4] == (True, False)  # it ended by itself
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
        game.set_state(saved.partition(b"\n")[0] + b"\n" + b"x\x9cK\x04\x00\x00b\x00b")  # "a", packed


def test_emulators_side_by_side(integrations):
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


def test_states_and_characters(integrations):
    game = find_game(GAME, integrations)
    assert [path.stem for path in find_states(game, "*.RyuVs*")] == [
        "Champion.Level1.RyuVsGuile",
        "Swapped.Level1.RyuVsGuile",
    ]
    given = f"integrations={integrations}"
    assert make_env("street-fighter", [given, "character=Ryu"]).info.env_id == "street-fighter"
    with pytest.raises(UserError, match=r"no state '\*.KenVs\*'; there are Champion.Level1.RyuVsGuile, Swapped"):
        make_env("street-fighter", [given, "character=Ken"])
    with pytest.raises(UserError, match="give state or character, not both"):
        make_env("street-fighter", [given, "character=Ryu", "state=Champion.Level1.RyuVsGuile"])
    with pytest.raises(UserError, match="option reward must be score or rounds, got 'fame'"):
        make_env("street-fighter", [given, "reward=fame"])
    with pytest.raises(UserError, match="there is no such folder"):
        make_env("street-fighter", ["integrations=no-such-folder"])
    with pytest.raises(UserError, match="has no option 'colour'; it has combos, state, character, reward, noops"):
        make_env("street-fighter", ["colour=1"])


@pytest.mark.skipif(find_game(GAME).rom is not None, reason="somebody has the ROM here")
@pytest.mark.parametrize("env_id", ["street-fighter", GAME])
def test_without_the_rom_one_line_says_how_to_get_it(env_id):
    message = r"its ROM \(SHA-1 a5aad1d1\w{32}\) is not installed; .* DIR, then python -m stable_retro.import DIR$"
    with pytest.raises(UserError, match=message):
        make_env(env_id)


def test_the_preset_is_the_papers_table():
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
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_decay_steps": 200_000,
        "dueling": True,
        "num_atoms": 51,
        "frames": 500_000_000,
        # "used in all experiments"
        "max_gradient_norm": 10.0,
        "n_step": 3,
        "noisy": True,
        "v_min": -10.0,
        "v_max": 10.0,
        "priority_exponent": 0.5,
        "importance_start": 0.4,
        "importance_end": 1.0,
    }
    assert {name: PRESETS["paper-sf2"][name] for name in paper} == paper
    assert SWEEPS["paper-sf2"] == {"penalty_weight": (0.3, 0.5), "meta_learning_rate": (0.001, 0.003)}
    assert default_preset("street-fighter") == default_preset(GAME) == "paper-sf2"
    assert from_preset("auto", "street-fighter").agent.stack == 4


def test_the_environment_is_the_papers_table(integrations):
    info = make_env("street-fighter", [f"integrations={integrations}"]).info
    assert (info.observation_shape, info.observation_kind) == ((128, 128, 3), "image")
    assert (info.frames_per_step, info.max_episode_steps, info.actions.num_primitives) == (2, 18_000, 15)
    assert info.actions.names[15] == "crouch-lp"  # set I
    assert info.success_above is None
    assert make_env("street-fighter", [f"integrations={integrations}", "reward=rounds"]).info.success_above == 0.0
    assert stated_options("street-fighter", ()) == ("combos=I",)
    family = family_of(GAME)
    assert (family.name, family.package, family.extra) == ("Street Fighter II", "stable_retro", "retro")
