"""Games, ROMs, states and buttons of stable-retro."""

import gzip

import pytest

pytest.importorskip("stable_retro")

import stable_retro as retro

from masp.environments.registry import family_of, make_env
from masp.environments.retro_games import button_choices, find_game, find_states, games_with_rom, read_state
from masp.errors import UserError

AIRSTRIKER = "Airstriker-Genesis-v0"


@pytest.mark.parametrize(
    "name", ["Airstriker-Genesis-v0", "retro-Airstriker", "retro-airstriker", "retro-Airstriker-Genesis"]
)
def test_short_and_full_ids_name_the_same_game(name):
    assert find_game(name).id == AIRSTRIKER
    assert find_game(name).rom.name == "rom.md"
    assert family_of(name).name == "retro games"


def test_families_of_ids():
    assert family_of("street-fighter").name == "Street Fighter II"
    assert family_of("StreetFighterIISpecialChampionEdition-Genesis-v0").name == "Street Fighter II"
    assert family_of("SuperMarioBros-Nes-v0").name == "retro games"
    assert family_of("CartPole-v1").name == "Gymnasium"


def test_every_id_of_stable_retro_belongs_to_a_retro_family():
    games = retro.data.list_games(retro.data.Integrations.ALL)
    assert len(games) > 900
    assert {family_of(game).name for game in games} == {"retro games", "Street Fighter II"}


def test_games_with_a_rom_are_listed():
    assert AIRSTRIKER in games_with_rom()
    assert all(find_game(name).rom is not None for name in games_with_rom())


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("retro-Airstrike", (), "no game called 'Airstrike'; did you mean Airstriker-Genesis-v0?"),
        ("Airstryker-Genesis-v0", (), "did you mean Airstriker-Genesis-v0"),
        ("retro-qqqqqqqq", (), "stable-retro has no game called 'qqqqqqqq'$"),
        ("retro-Battletoads", (), "may be Battletoads-Genesis-v0 or Battletoads-Nes-v0; give one of these"),
        ("retro-Airstriker", ["buttons=B,Q"], "Airstriker-Genesis-v0 has no button Q; it has A, B, C, DOWN"),
        ("retro-Airstriker", ["state=Level9"], "there is no state 'Level9'; there are Level1"),
        ("retro-Airstriker", ["size=20"], "option size must be at least 36, got 20"),
        ("retro-Airstriker", ["repeat=0"], "option repeat must be at least 1, got 0"),
        ("retro-Airstriker", ["noops=-1"], "option noops must be at least 0, got -1"),
        ("retro-Airstriker", ["grey=1"], "option grey must be of type bool, got 1"),
        ("retro-Airstriker", ["colour=1"], "retro-Airstriker has no option 'colour'; it has buttons, state, repeat"),
    ],
)
def test_invalid_games_and_options_are_named(env_id, options, message):
    with pytest.raises(UserError, match=message):
        make_env(env_id, options)


def test_a_missing_rom_is_named_with_the_command_that_imports_it():
    missing = next(name for name in ("SuperMarioBros-Nes-v0", "Pong-Atari2600-v0") if find_game(name).rom is None)
    with pytest.raises(
        UserError, match=rf"^{missing}: its ROM \(SHA-1 \w+\) is not installed; .*python -m stable_retro.import"
    ):
        make_env(missing)


def test_states_are_found_by_name_pattern_and_path(tmp_path):
    game = find_game(AIRSTRIKER)
    (default,) = find_states(game, "")
    assert default.stem == "Level1"
    assert find_states(game, "Level1") == find_states(game, "Level1.state") == find_states(game, "Lev*") == [default]
    for name in ("one", "two"):
        (tmp_path / f"{name}.state").write_bytes(gzip.compress(name.encode()))
    states = find_states(game, str(tmp_path / "*.state"))
    assert [read_state(path) for path in states] == [b"one", b"two"]
    (tmp_path / "broken.state").write_bytes(b"not compressed")
    with pytest.raises(UserError, match=r"broken.state: cannot be read as a state of stable-retro"):
        read_state(tmp_path / "broken.state")


def test_actions_have_the_order_of_stable_retro():
    env = retro.make(AIRSTRIKER, use_restricted_actions=retro.Actions.DISCRETE, render_mode="rgb_array")
    choices = button_choices(find_game(AIRSTRIKER))
    assert env.action_space.n == len(choices) == 126
    assert [set(env.get_action_meaning(i)) for i in range(126)] == [set(choice) for choice in choices]
    env.close()


def test_buttons_can_be_restricted():
    names = make_env("retro-Airstriker", ["buttons=LEFT,RIGHT,B"]).info.actions.names
    assert names[:6] == ["NOOP", "LEFT", "RIGHT", "B", "LEFT+B", "RIGHT+B"]
    assert len(names) == 6 + 5 * 2  # repeats of all but NOOP
