"""Games of stable-retro as a vector: one emulator in a process, as many processes as environments."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np

from masp.environments.base import EnvInfo
from masp.environments.process_vector import ProcessVector
from masp.environments.retro import RetroGame, Setting
from masp.environments.retro_controls import AsIntegrated, ButtonChoices
from masp.environments.retro_games import button_choices, find_game, find_states, has_script
from masp.environments.retro_view import View
from masp.macros.actions import default_macros


def make_retro(
    env_id: str,
    num_envs: int,
    buttons: str = "",
    state: str = "",
    repeat: int = 4,
    size: int = 84,
    grey: bool = True,
    noops: int = 30,
    max_steps: int = 27_000,
    integrations: str = "",
) -> ProcessVector:
    """So many emulators with the game called `env_id`; its macros are repeats of its actions.

    Args:
      buttons: those to play with, with commas; empty: all that the integration allows, in every combination.
      state: where episodes begin: a state's name, several by `*`, or the path of state files; empty: the usual one.
      repeat: frames that a step holds its buttons for.
      size: height and width of the observation.
      grey: brightness instead of colours.
      noops: an episode begins after 0 to so many steps without buttons.
      max_steps: steps after which an episode is cut; as usual, 108,000 frames.
      integrations: a folder with games of one's own, looked at before those of stable-retro.
    """
    game = find_game(env_id, integrations)
    game.require_rom()
    choices = button_choices(game, buttons.split(",") if buttons else ())
    setting = Setting(game, find_states(game, state), View(size, grey), repeat, noops, max_steps)
    names = ["+".join(choice) or "NOOP" for choice in choices]
    info = EnvInfo(
        env_id=env_id,
        observation_shape=setting.view.shape,
        observation_dtype=np.dtype(np.uint8),
        observation_kind="image",
        actions=default_macros(len(choices), names, env_id),
        frames_per_step=repeat,
        max_episode_steps=max_steps,
    )
    make = partial(RetroGame, setting, ButtonChoices(choices), AsIntegrated())
    return ProcessVector(partial(_hiding_state, make) if has_script(game) else make, num_envs, info)


def _hiding_state(make: partial[RetroGame]) -> gymnasium.Env:
    """The game without `get_state`: what a script remembers is not in it, so episodes are saved by their actions."""
    return gymnasium.Wrapper(make())
