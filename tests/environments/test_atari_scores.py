"""Human-normalised scores."""

import pytest

from masp.environments.atari_scores import human_normalised, known_games, paper_games, references
from masp.errors import UserError


def test_human_normalised_by_hand():
    assert human_normalised("Breakout", 1.7) == 0.0
    assert human_normalised("Breakout", 30.5) == 100.0
    assert human_normalised("Breakout", 16.1) == pytest.approx(50.0)
    assert human_normalised("Pong", 21.0) == pytest.approx(100 * 41.7 / 35.3)
    assert human_normalised("Skiing", -17098.1) == 0.0
    assert human_normalised("Breakout", 27.9, "human-starts") == 100.0


def test_known_and_paper_games():
    assert (len(known_games()), len(paper_games())) == (57, 54)
    assert references().keys() == references("human-starts").keys()
    assert set(known_games()) - set(paper_games()) == {"Jamesbond", "Riverraid", "UpNDown"}


def test_humans_score_above_random_players():
    for starts in ("no-ops", "human-starts"):
        exceptions = [game for game, (random, human) in references(starts).items() if human <= random]
        assert exceptions == (["VideoPinball"] if starts == "human-starts" else [])


def test_every_name_is_a_game_of_ale():
    roms = pytest.importorskip("ale_py.roms")
    names = {rom.title().replace("_", "") for rom in roms.get_all_rom_ids()}
    assert set(known_games()) <= names


def test_an_unknown_game_is_named():
    with pytest.raises(UserError, match="no reference score for 'Brakeout'; there are Alien, Amidar"):
        human_normalised("Brakeout", 0.0)
