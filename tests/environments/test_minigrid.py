"""MiniGrid is the package's own game, with the direction and the words of the mission as planes."""

import sys
import warnings
from itertools import product

import gymnasium
import numpy as np
import pytest
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.core.world_object import Key
from vectors import play

from masp.environments import make_env
from masp.environments.gym_vector import episode_seed
from masp.environments.minigrid import ACTION_NAMES, MACROS, CellsWithDirection
from masp.environments.minigrid_cells import MINIGRID_CARDINALITIES
from masp.environments.minigrid_mission import MOST_WORDS, NUM_CODES, UNKNOWN_WORD, VOCABULARY, mission_plane
from masp.environments.registry import stated_options
from masp.errors import UserError


@pytest.mark.parametrize("name", ["DoorKey-5x5", "FourRooms", "LockedRoom", "ObstructedMaze-Full", "KeyCorridorS3R1"])
def test_equals_the_package_step_by_step(name):
    vector = make_env(name, ["max_steps=40"], 2)
    first, actions, steps = play(vector, 100, seed=2)
    for i in range(2):
        env, episode, resetting = gymnasium.make(vector.info.env_id, max_steps=40), 0, True
        shown = [(first[i], 0.0, False, False)]
        shown += [(steps.observation[t, i], steps.reward[t, i], steps.terminated[t, i], steps.truncated[t, i])
                  for t in range(100)]  # fmt: skip
        for t, (observation, reward, terminated, truncated) in enumerate(shown):
            if resetting:
                expected, _ = env.reset(seed=episode_seed(2, i, episode))
                paid, over, cut = 0.0, False, False
                episode += 1
            else:
                expected, paid, over, cut, _ = env.step(actions[t - 1, i])
            np.testing.assert_array_equal(observation[..., :3], expected["image"])
            assert (observation[..., 3] == expected["direction"]).all()
            if vector.info.observation_kind == "minigrid-mission":
                np.testing.assert_array_equal(observation[..., 4], mission_plane(expected["mission"], 7, 7))
            assert (reward, terminated, truncated) == (np.float32(paid), over, cut and not over)
            resetting = over or cut
        assert episode >= 3


def test_every_code_has_a_place_in_the_network():
    objects, colours, states, directions = MINIGRID_CARDINALITIES
    assert max(OBJECT_TO_IDX.values()) < objects
    assert max(COLOR_TO_IDX.values()) < colours
    assert max(STATE_TO_IDX.values()) < states
    assert directions == 4


@pytest.mark.parametrize(
    "name", ["LavaCrossingS9N1", "Dynamic-Obstacles-6x6", "UnlockPickup", "RedBlueDoors-6x6", "Playground"]
)
def test_codes_in_play(name):
    _, _, steps = play(make_env(name, (), 4), 100)
    assert (steps.observation[..., :4] < np.array(MINIGRID_CARDINALITIES)).all()


def test_a_carried_object_is_seen_in_the_agents_cell():
    env = CellsWithDirection(gymnasium.make("MiniGrid-DoorKey-5x5-v0"))
    observation, _ = env.reset(seed=0)
    direction = env.unwrapped.agent_dir
    np.testing.assert_array_equal(observation[3, 6], [OBJECT_TO_IDX["empty"], 0, 0, direction])
    env.unwrapped.carrying = Key("yellow")
    observation, *_ = env.step(ACTION_NAMES.index("done"))
    np.testing.assert_array_equal(observation[3, 6], [OBJECT_TO_IDX["key"], COLOR_TO_IDX["yellow"], 0, direction])
    assert env.observation_space.contains(observation)


def every_mission():
    """Id, mission space and all texts of every task of the package."""
    for env_id in [i for i in gymnasium.registry if i.startswith("MiniGrid-") and "WFC" not in i]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old versions of tasks
            space = gymnasium.make(env_id).observation_space["mission"]
        yield env_id, space, [space.mission_func(*words) for words in product(*(space.ordered_placeholders or ()))]


def test_every_word_of_every_mission_has_a_code():
    """The tasks made by wave function collapse need another package; what they say is written out here."""
    texts = {"traverse the maze to get to the goal"}
    for _, _, missions in every_mission():
        texts |= set(missions)
    assert len(texts) > 600
    planes = np.array([mission_plane(text, 7, 7) for text in texts])
    assert (planes != UNKNOWN_WORD).all()
    assert len({plane.tobytes() for plane in planes}) == len(texts)  # no two missions look alike
    assert set(np.unique(planes)) == set(range(NUM_CODES)) - {UNKNOWN_WORD}  # and no code is for nothing


def test_missions_reach_the_network_where_they_can_differ():
    """And in ObstructedMaze, whose text has a blank for a colour but always says blue."""
    for env_id, _, missions in every_mission():
        told = make_env(env_id).info.observation_kind == "minigrid-mission"
        assert told == (len(missions) > 1 or "ObstructedMaze" in env_id), env_id


def test_a_mission_by_hand():
    plane = mission_plane("Open the red door, then zap.", 3, 2)
    assert plane.shape == (3, 2)
    words = [VOCABULARY.index(word) + 2 for word in ("open", "the", "red", "door", "then")]
    assert plane.ravel().tolist() == [*words, UNKNOWN_WORD]
    assert mission_plane("go", 7, 7).ravel().tolist() == [VOCABULARY.index("go") + 2] + [0] * 48
    assert len(set(VOCABULARY)) == len(VOCABULARY) == NUM_CODES - 2


def test_a_mission_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match="has 17 words, but 3x3 cells have room for 9; choose a larger agent_view_size"):
        make_env("LockedRoom", ["agent_view_size=3"]).reset(0)
    with pytest.raises(UserError, match=f"room for {MOST_WORDS}; shorten it"):
        mission_plane("go " * 25, 7, 7)


def test_runs_write_down_who_plays():
    assert stated_options("DoorKey-5x5", ()) == ("backend=minigrid",)
    assert stated_options("DoorKey-5x5", ("size=6",)) == ("size=6", "backend=minigrid")
    assert stated_options("DoorKey-5x5", ("backend=envpool",)) == ("backend=envpool",)
    assert type(make_env("DoorKey-5x5", ["backend=minigrid"])) is type(make_env("DoorKey-5x5"))
    with pytest.raises(UserError, match="backend must be minigrid or envpool, got 'jax'"):
        make_env("DoorKey-5x5", ["backend=jax"])


def test_envpool_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"needs the package envpool: pip install 'masp-rl\[envpool\]'"):
        make_env("DoorKey-5x5", ["backend=envpool"])


@pytest.mark.parametrize(
    ("name", "full", "limit"),
    [
        ("DoorKey-5x5", "MiniGrid-DoorKey-5x5-v0", 250),
        ("DoorKey-8x8", "MiniGrid-DoorKey-8x8-v0", 640),
        ("FourRooms", "MiniGrid-FourRooms-v0", 100),
        ("LockedRoom", "MiniGrid-LockedRoom-v0", 190),
        ("ObstructedMaze-Full", "MiniGrid-ObstructedMaze-Full-v1", 3600),
        ("MiniGrid-ObstructedMaze-Full-v0", "MiniGrid-ObstructedMaze-Full-v0", 3600),
    ],
)
def test_description(name, full, limit):
    info = make_env(name).info
    assert (info.env_id, info.max_episode_steps, info.success_above) == (full, limit, 0.0)
    told = name in ("LockedRoom", "ObstructedMaze-Full", "MiniGrid-ObstructedMaze-Full-v0")
    seen = ((7, 7, 5), "minigrid-mission") if told else ((7, 7, 4), "minigrid")
    assert (info.observation_shape, info.observation_kind) == seen
    assert info.actions.primitive_names == ("left", "right", "forward", "pickup", "drop", "toggle", "done")
    assert len(info.actions.macros) == 8
    assert all(2 <= len(macro) <= 4 for macro in MACROS)


def test_tasks_with_fewer_actions_keep_the_macros_that_fit():
    actions = make_env("Dynamic-Obstacles-5x5").info.actions
    assert actions.primitive_names == ("left", "right", "forward")
    assert len(actions.macros) == 6


def test_the_stricter_limit_counts():
    assert make_env("DoorKey-5x5", ["max_episode_steps=20"]).info.max_episode_steps == 20
    assert make_env("DoorKey-5x5", ["max_episode_steps=999"]).info.max_episode_steps == 250
