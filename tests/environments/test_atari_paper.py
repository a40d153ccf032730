"""All games of the paper's table, under the preset."""

import numpy as np
import pytest

from masp.environments import make_env
from masp.environments.atari_scores import paper_games
from masp.presets import default_preset, from_preset

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

TICKS = 25


@pytest.mark.parametrize("game", paper_games())
def test_steps_under_the_preset_and_starts_anew(game):
    """A used emulator begins an episode as a new one does: the reset of some games leaves traces."""
    config = from_preset("paper-atari", game)
    env = make_env(config.env, config.env_options)
    info = env.info
    assert (info.env_id, info.observation_shape, info.actions.num_primitives) == (game, (84, 84, 1), 18)
    begin = _play(env, 7, np.arange(TICKS) * 5 % 18)
    between = _play(env, 99, np.random.default_rng(0).integers(18, size=100))
    assert len({frame.tobytes() for frame in between}) > 5  # something moves
    np.testing.assert_array_equal(_play(env, 7, np.arange(TICKS) * 5 % 18), begin)


def _play(env, seed, actions):
    """[1 + actions, ...] what one environment shows."""
    seen = [env.reset(seed)[0]]
    for action in actions:
        step = env.step(np.array([action]))
        assert not step.truncated.any()
        seen.append(step.observation[0])
    return np.stack(seen)


def test_which_preset_a_game_gets():
    assert default_preset("Breakout") == default_preset("ALE/Breakout-v5") == "atari"
