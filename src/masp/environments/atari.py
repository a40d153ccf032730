"""Atari 2600 games through the Arcade Learning Environment, preprocessed as in the paper's table.

One step is `repeat` frames of one action; what is seen is the brightness of the last two of them, the larger of both
where they differ (many games draw an object in every other frame only), as one small grey image.

An episode is its seed and its actions, and nothing else. That takes two things which the emulator does not do by
itself. Its reset leaves traces of the game before in some games, so an episode begins from a copy of the machine as it
was switched on. And it seeds its random numbers only when it loads a game, which takes as long as a hundred steps, so
actions stick here instead of there, by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from masp.environments.base import EnvInfo
from masp.environments.gym_vector import SMALLEST_IMAGE, GymVector
from masp.errors import UserError
from masp.macros.actions import ALE_ACTIONS, default_macros

NOOP = 0

FOR_TWO = ("combat", "joust", "maze_craze", "warlords")
"""Games that cannot be played alone."""


@dataclass(frozen=True)
class AtariSettings:
    """How a game is played and seen; the fields are the options of the environment."""

    sticky: float = 0.25
    """Chance, at each frame, that the action of the frame before is played instead (paper: sticky, no figure)."""
    noops: int = 30
    """An episode begins with 1 to so many frames of no action; 0: with none (paper: 30)."""
    repeat: int = 4
    """Frames of a step (paper: 4)."""
    full_actions: bool = True
    """All 18 actions, or only those that do something in the game (paper: all)."""
    life_loss: bool = True
    """A lost life ends returns, though not the game (paper: true)."""
    max_frames: int = 108_000
    """An episode is cut after so many frames (paper: 108,000, half an hour)."""
    size: int = 84
    """Height and width of the image (paper: 84)."""
    backend: str = "ale"
    """What plays: ale (exact resume) or envpool (more threads)."""

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is cut."""
        return -(-self.max_frames // self.repeat)

    def __post_init__(self) -> None:
        if not 0.0 <= self.sticky < 1.0:
            raise UserError(f"option sticky must be at least 0 and below 1, got {self.sticky}")
        for name, low in (("noops", 0), ("repeat", 1), ("max_frames", 1), ("size", SMALLEST_IMAGE)):
            if getattr(self, name) < low:
                raise UserError(f"option {name} must be at least {low}, got {getattr(self, name)}")


class AtariGame(gymnasium.Env):
    """One game; observations [size, size, 1] uint8, `info["life_lost"]` where a life was lost and play goes on."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's own form
    render_mode = "rgb_array"

    def __init__(self, game: str, settings: AtariSettings | None = None):
        self.game, self.settings = game, settings or AtariSettings()
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)  # see the top of this file
        self._ale.setInt("random_seed", 1)  # of numbers that nothing uses
        self._ale.loadROM(rom_path(game))
        self._switched_on = self._ale.cloneSystemState()
        # All 18 in every game, so that macros and similarities fit all: where one means nothing (the button, in
        # Skiing) the emulator plays none.
        few = [action.value for action in self._ale.getMinimalActionSet()]
        self._actions = list(range(len(ALE_ACTIONS))) if self.settings.full_actions else few
        self._screens = np.zeros((2, *self._ale.getScreenDims()), np.uint8)  # the newest, and the one before
        self._held, self._steps, self._lives = NOOP, 0, 0
        size = self.settings.size
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 1), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))

    def get_action_meanings(self) -> list[str]:
        """Names of the actions, in their order."""
        return [ALE_ACTIONS[action] for action in self._actions]

    def legal_indices(self) -> np.ndarray:
        """[actions] int32: where each action stands among those that the emulator offers; no action if it does not."""
        full = self.settings.full_actions
        offered = self._ale.getLegalActionSet() if full else self._ale.getMinimalActionSet()
        codes = [action.value for action in offered]
        return np.array([codes.index(action if action in codes else NOOP) for action in self._actions], np.int32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._begin()
        noops = self.settings.noops and int(self.np_random.integers(1, self.settings.noops, endpoint=True))
        for _ in range(noops):
            self._ale.act(NOOP)
            if self._ale.game_over():
                self._begin()
        self._held, self._steps, self._lives = NOOP, 0, self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        return self._observation(), {"lives": self._lives, "life_lost": False}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        repeat, reward = self.settings.repeat, 0
        sticks = self.np_random.random(repeat) < self.settings.sticky
        for frame in range(repeat):
            if not sticks[frame]:
                self._held = self._actions[action]
            reward += self._ale.act(self._held)  # does nothing once the game is over
            if frame >= repeat - 2:
                self._ale.getScreenGrayscale(self._screens[repeat - 1 - frame])
        self._steps += 1
        over, lives = self._ale.game_over(), self._ale.lives()
        life_lost = self.settings.life_loss and lives < self._lives and not over
        self._lives = lives
        cut = self._steps >= self.settings.max_steps and not over
        return self._observation(), float(reward), over, cut, {"lives": lives, "life_lost": life_lost}

    def render(self) -> np.ndarray:
        """[height, width, 3] the screen in colour."""
        return self._ale.getScreenRGB()

    def _begin(self) -> None:
        self._ale.restoreSystemState(self._switched_on)
        self._ale.reset_game()

    def _observation(self) -> np.ndarray:
        seen = np.maximum(self._screens[0], self._screens[1])
        size = self.settings.size
        return cv2.resize(seen, (size, size), interpolation=cv2.INTER_AREA)[..., None]


def rom_path(game: str) -> str:
    """Where ale-py keeps a game; raises `UserError` for one that it does not have."""
    for rom in roms.get_all_rom_ids():
        if rom.title().replace("_", "") == game and rom not in FOR_TWO:
            return str(roms.get_rom_path(rom))
    raise UserError(f"ale-py has no game {game!r} for one player; names are written like Breakout and MsPacman")


def describe_atari(env: AtariGame) -> EnvInfo:
    """What training needs to know of a game."""
    shape = env.observation_space.shape
    assert shape is not None
    names = env.get_action_meanings()
    return EnvInfo(
        env_id=env.game,
        observation_shape=shape,
        observation_dtype=np.dtype(np.uint8),
        observation_kind="image",
        actions=default_macros(len(names), names, env.game),
        frames_per_step=env.settings.repeat,
        max_episode_steps=env.settings.max_steps,
    )


def make_atari(game: str, settings: AtariSettings, num_envs: int = 1) -> GymVector:
    """So many of one game, played one after the other: ale-py keeps Python's lock, so threads would not help."""
    return GymVector(lambda: AtariGame(game, settings), num_envs, describe_atari)  # type: ignore[arg-type]
