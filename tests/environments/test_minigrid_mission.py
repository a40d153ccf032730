"""Missions as planes of word codes."""

import warnings
from itertools import product

import gymnasium
import minigrid  # noqa: F401  (registers its environments)
import numpy as np
import pytest

from masp.environments import make_env
from masp.environments.minigrid_mission import MOST_WORDS, NUM_CODES, UNKNOWN_WORD, VOCABULARY, mission_plane
from masp.errors import UserError


def every_mission():
    """Id and all mission texts of every task of the package."""
    for env_id in [i for i in gymnasium.registry if i.startswith("MiniGrid-") and "WFC" not in i]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old versions of tasks
            space = gymnasium.make(env_id).observation_space["mission"]
        yield env_id, [space.mission_func(*words) for words in product(*(space.ordered_placeholders or ()))]


def test_every_word_of_every_mission_has_a_code():
    """The WFC tasks need another package, so their only mission is spelled out here."""
    texts = {"traverse the maze to get to the goal"}
    for _, missions in every_mission():
        texts |= set(missions)
    assert len(texts) > 600
    planes = np.array([mission_plane(text, 7, 7) for text in texts])
    assert (planes != UNKNOWN_WORD).all()
    assert len({plane.tobytes() for plane in planes}) == len(texts)  # no two missions have the same plane
    assert set(np.unique(planes)) == set(range(NUM_CODES)) - {UNKNOWN_WORD}  # every code is used


def test_missions_are_observed_where_they_differ():
    """And in ObstructedMaze, whose text has a placeholder for a colour that is always blue."""
    for env_id, missions in every_mission():
        has_mission = make_env(env_id).info.observation_kind == "minigrid-mission"
        assert has_mission == (len(missions) > 1 or "ObstructedMaze" in env_id), env_id


def test_mission_plane_by_hand():
    plane = mission_plane("Open the red door, then zap.", 3, 2)
    assert plane.shape == (3, 2)
    words = [VOCABULARY.index(word) + 2 for word in ("open", "the", "red", "door", "then")]
    assert plane.ravel().tolist() == [*words, UNKNOWN_WORD]
    assert mission_plane("go", 7, 7).ravel().tolist() == [VOCABULARY.index("go") + 2] + [0] * 48
    assert len(set(VOCABULARY)) == len(VOCABULARY) == NUM_CODES - 2


def test_a_mission_with_too_many_words_is_refused():
    with pytest.raises(UserError, match="has 17 words, but 3x3 cells have room for 9; choose a larger agent_view_size"):
        make_env("LockedRoom", ["agent_view_size=3"]).reset(0)
    with pytest.raises(UserError, match=f"room for {MOST_WORDS}; shorten it"):
        mission_plane("go " * 25, 7, 7)
