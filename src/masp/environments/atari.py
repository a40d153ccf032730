"""Atari 2600 games through the Arcade Learning Environment, preprocessed as in the paper's table.

One step is `repeat` frames of one action. The observation is the pixel-wise maximum of the last two frames (many games
draw an object only in every other frame) as one small grey image.

An episode is a function of its seed and its actions alone. The emulator does not guarantee this. In some games its
reset leaves traces of the previous episode, so an episode starts from a copy of the machine at power-on. It also seeds
its random numbers only when it loads a ROM, which takes as long as a hundred steps, so sticky actions are implemented
here, by the emulator's own rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from masp.environments.atari_scores import game_of
from masp.environments.base import ENVPOOL, SMALLEST_IMAGE, EnvInfo, HostEnv, Option, make_with_options
from masp.environments.gymnasium_vector import GymVector
from masp.errors import UserError
from masp.macros.actions import ALE_ACTIONS, default_macros

NOOP = 0

TWO_PLAYER_ROMS = ("combat", "joust", "maze_craze", "warlords")
"""Games that need two players."""


@dataclass(frozen=True)
class AtariSettings:
    """The options of the environment: preprocessing and limits."""

    sticky: float = 0.25
    """Probability at each frame that the previous frame's action is repeated; a quarter as in Machado et al. (2018)
    (paper: sticky, no value)."""
    noops: int = 30
    """An episode starts with 1 to `noops` frames of NOOP; 0: with none (paper: 30)."""
    repeat: int = 4
    """Frames per step; the larger value of each pixel in the last two is seen (paper: 4)."""
    full_actions: bool = True
    """All 18 actions in every game, so that macros and bundles fit all games, or only those it uses (paper: all)."""
    life_loss: bool = True
    """A lost life ends the return, but not the episode (paper: true)."""
    max_frames: int = 108_000
    """Frames after which an episode is truncated, without the no-ops (paper: 108,000, half an hour)."""
    size: int = 84
    """Height and width of the image (paper: 84)."""
    backend: str = "ale"
    """ale (exact resume) or envpool (multithreaded)."""

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is truncated."""
        return -(-self.max_frames // self.repeat)

    def __post_init__(self) -> None:
        if not 0.0 <= self.sticky < 1.0:
            raise UserError(f"option sticky must be at least 0 and below 1, got {self.sticky}")
        for name, low in (("noops", 0), ("repeat", 1), ("max_frames", 1), ("size", SMALLEST_IMAGE)):
            if getattr(self, name) < low:
                raise UserError(f"option {name} must be at least {low}, got {getattr(self, name)}")


def make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    """`num_envs` environments of one game, by the backend of the option `backend`."""
    game = game_of(env_id)
    assert game is not None
    settings = make_with_options(AtariSettings, env_id, options)
    if settings.backend == "ale":
        # Stepped in turn: ale-py holds Python's global lock, so threads would not help.
        return GymVector(lambda: AtariGame(game, settings), num_envs, describe_atari)  # type: ignore[arg-type]
    if settings.backend != "envpool":
        raise UserError(f"{env_id}: backend must be ale or envpool, got {settings.backend!r}")
    ENVPOOL.require_installed("backend=envpool")
    from masp.environments.atari_envpool import EnvPoolAtari

    return EnvPoolAtari(game, settings, num_envs)


class AtariGame(gymnasium.Env):
    """One game; observations [size, size, 1] uint8. `info["life_lost"]`: a life was lost and the game goes on."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as in Gymnasium
    render_mode = "rgb_array"

    def __init__(self, game: str, settings: AtariSettings | None = None):
        self.game, self.settings = game, settings or AtariSettings()
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)  # sticky actions are implemented in `step`
        self._ale.setInt("random_seed", 1)  # has no effect without sticky actions
        self._ale.loadROM(rom_path(game))
        self._power_on_state = self._ale.cloneSystemState()
        # The same 18 actions in every game, so that macros and similarities transfer. The emulator plays NOOP for an
        # action that a game does not have, such as the button in Skiing.
        minimal_actions = [action.value for action in self._ale.getMinimalActionSet()]
        self._actions = list(range(len(ALE_ACTIONS))) if self.settings.full_actions else minimal_actions
        self._screens = np.zeros((2, *self._ale.getScreenDims()), np.uint8)  # the newest, and the previous one
        self._last_action, self._steps, self._lives = NOOP, 0, 0
        size = self.settings.size
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 1), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))

    def get_action_meanings(self) -> list[str]:
        """Names of the actions, in their order."""
        return [ALE_ACTIONS[action] for action in self._actions]

    def legal_indices(self) -> np.ndarray:
        """[actions] int32: index of each action in the emulator's own list; that of NOOP if it is not in the list."""
        full = self.settings.full_actions
        legal_actions = self._ale.getLegalActionSet() if full else self._ale.getMinimalActionSet()
        codes = [action.value for action in legal_actions]
        return np.array([codes.index(action if action in codes else NOOP) for action in self._actions], np.int32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._restart()
        noops = self.settings.noops and int(self.np_random.integers(1, self.settings.noops, endpoint=True))
        for _ in range(noops):
            self._ale.act(NOOP)
            if self._ale.game_over():
                self._restart()
        self._last_action, self._steps, self._lives = NOOP, 0, self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        return self._observation(), {"lives": self._lives, "life_lost": False}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        repeat, reward = self.settings.repeat, 0
        repeats_last = self.np_random.random(repeat) < self.settings.sticky
        for frame in range(repeat):
            if not repeats_last[frame]:
                self._last_action = self._actions[action]
            reward += self._ale.act(self._last_action)  # no-op once the game is over
            if frame >= repeat - 2:
                self._ale.getScreenGrayscale(self._screens[repeat - 1 - frame])
        self._steps += 1
        terminated, lives = self._ale.game_over(), self._ale.lives()
        life_lost = self.settings.life_loss and lives < self._lives and not terminated
        self._lives = lives
        truncated = self._steps >= self.settings.max_steps and not terminated
        return self._observation(), float(reward), terminated, truncated, {"lives": lives, "life_lost": life_lost}

    def render(self) -> np.ndarray:
        """[height, width, 3] the screen in colour."""
        return self._ale.getScreenRGB()

    def _restart(self) -> None:
        self._ale.restoreSystemState(self._power_on_state)
        self._ale.reset_game()

    def _observation(self) -> np.ndarray:
        maximum = np.maximum(self._screens[0], self._screens[1])
        size = self.settings.size
        return cv2.resize(maximum, (size, size), interpolation=cv2.INTER_AREA)[..., None]


def rom_path(game: str) -> str:
    """Path of the ROM of a game; raises `UserError` if ale-py does not have it."""
    for rom in roms.get_all_rom_ids():
        if rom.title().replace("_", "") == game and rom not in TWO_PLAYER_ROMS:
            return str(roms.get_rom_path(rom))
    raise UserError(f"ale-py has no game {game!r} for one player; names are written like Breakout and MsPacman")


def describe_atari(env: AtariGame) -> EnvInfo:
    """The description of a game."""
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
