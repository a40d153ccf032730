"""Which of the recorded episodes macros are mined from, and play of a solver."""

import json

from masp.experiments.materials import best_episodes, prepare
from masp.experiments.store import Store
from masp.experiments.trial import MacroSet, Play, Solver, Trial
from masp.macros.actions import ActionSet

EPISODES = [
    {"actions": [0], "return": 2.0, "complete": True},
    {"actions": [1], "return": 9.0, "complete": False},
    {"actions": [2], "return": 1.0, "complete": True},
    {"actions": [3], "return": 5.0, "complete": True},
]


def test_the_best_half_of_the_complete_episodes_in_the_order_of_play():
    assert best_episodes(EPISODES, 0.5) == [[0], [3]]  # ceil(3 / 2) of those that came to an end


def test_all_play_includes_the_cut_episodes():
    assert best_episodes(EPISODES, 1.0) == [[0], [1], [2], [3]]


def test_demonstrations_of_a_solver_are_made_once_and_mined_too(tmp_path):
    solver = Solver(5)
    macros = MacroSet(Play(solver=solver), k=2, min_length=2, max_length=2)
    trial = Trial("DoorKey-5x5", 1000, (0, 1), "macros", env_options=("view=whole",), macros=macros)
    store = Store(tmp_path)
    assert set(prepare(trial, 0, store)) == {"macros"}
    shown = Trial(**{**trial.__dict__, "demonstrations": solver})
    first, second = prepare(shown, 0, store), prepare(shown, 1, store)
    assert first == second
    assert set(first) == {"macros", "demonstrations"}
    [recording] = store.path.glob("plays/*")
    assert first["demonstrations"] == str(recording)
    episodes = [json.loads(line) for line in recording.read_text().splitlines()[1:]]
    assert len(episodes) == 5
    assert all(episode["success"] for episode in episodes)
    mined = ActionSet.load(first["macros"]).macros
    assert len(mined) == 2
    played = [tuple(episode["actions"]) for episode in episodes]
    for macro in mined:  # an independent count: each occurs at least twice
        assert sum(play[i : i + 2] == macro.actions for play in played for i in range(len(play) - 1)) >= 2
