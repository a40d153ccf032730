"""Which of the recorded episodes macros are mined from."""

from masp.experiments.materials import best_episodes

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
