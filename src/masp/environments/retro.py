"""Games of stable-retro, by their id or by `retro-` and the beginning of it.

A step holds a combination of buttons for some frames. `Controls` map actions to buttons, `Rules` define rewards and
ends; Street Fighter has its own implementations of both. A process can hold only one emulator, so each environment of a
vector has its own process.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

import gymnasium
import numpy as np
import stable_retro

from masp.environments.base import SMALLEST_IMAGE, EnvInfo, HostEnv, Option, make_with_options
from masp.environments.processes import ProcessVector
from masp.environments.retro_games import (
    Game,
    button_choices,
    find_game,
    find_states,
    games_with_rom,
    has_script,
    integration_type,
    read_state,
)
from masp.errors import UserError
from masp.macros.actions import default_macros

Variables = Mapping[str, int]
"""Values in the game's memory, by the names that its integration gives them."""

LUMA = np.array([0.299, 0.587, 0.114], np.float32)
"""Weights of red, green and blue in the brightness (ITU-R 601)."""


def make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    """`num_envs` emulators of one game."""
    return make_with_options(partial(make_retro, env_id, num_envs), env_id, options)


def names() -> Sequence[str]:
    """Ids of the games whose ROM is installed."""
    return games_with_rom()


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
    """`num_envs` emulators of the game `env_id`, with repeats of its actions as macros.

    Args:
      buttons: the buttons to use, separated by commas; empty: all combinations that the integration allows.
      state: start of the episodes: name of a state, a pattern with `*`, or path of state files; empty: the default.
      repeat: frames per step.
      size: height and width of the observation.
      grey: brightness instead of colours.
      noops: an episode starts with 0 to `noops` steps without buttons.
      max_steps: steps after which an episode is truncated; by default 108,000 frames.
      integrations: folder with the user's own integrations, searched before those of stable-retro.
    """
    game = find_game(env_id, integrations)
    game.require_rom()
    choices = button_choices(game, buttons.split(",") if buttons else ())
    setting = Setting(game, find_states(game, state), View(size, grey), repeat, noops, max_steps)
    action_names = ["+".join(choice) or "NOOP" for choice in choices]
    info = EnvInfo(
        env_id=env_id,
        observation_shape=setting.view.shape,
        observation_dtype=np.dtype(np.uint8),
        observation_kind="image",
        actions=default_macros(len(choices), action_names, env_id),
        frames_per_step=repeat,
        max_episode_steps=max_steps,
    )
    make_game = partial(RetroGame, setting, ButtonChoices(choices), IntegrationRules())
    return ProcessVector(partial(_without_state, make_game) if has_script(game) else make_game, num_envs, info)


def _without_state(make_game: partial[RetroGame]) -> gymnasium.Env:
    """The game without `get_state`, which lacks a script's variables: a snapshot then replays the actions instead."""
    return gymnasium.Wrapper(make_game())


class Controls(Protocol):
    """Maps actions to buttons."""

    memory: list[int]
    """Its state within an episode."""

    @property
    def num_actions(self) -> int: ...

    def begin(self, variables: Variables) -> None:
        """Start a new episode in a game with these variables."""
        ...

    def press(self, action: int, variables: Variables) -> Sequence[str]:
        """Names of the buttons to hold for one step."""
        ...


class Rules(Protocol):
    """Rewards, and ends of episodes in addition to those of the integration."""

    memory: list[int]
    """Its state within an episode."""

    def begin(self, variables: Variables) -> None:
        """Start a new episode in a game with these variables."""
        ...

    def judge(self, variables: Variables, integration_reward: float) -> tuple[float, bool]:
        """Reward of one frame, and whether the episode terminates with it; called for each frame."""
        ...


class ButtonChoices:
    """Action i holds the i-th of a list of combinations of buttons."""

    def __init__(self, choices: Sequence[Sequence[str]]):
        self._choices = choices
        self.memory: list[int] = []

    @property
    def num_actions(self) -> int:
        return len(self._choices)

    def begin(self, variables: Variables) -> None:
        pass

    def press(self, action: int, variables: Variables) -> Sequence[str]:
        return self._choices[action]


class IntegrationRules:
    """Rewards and ends of the integration, unchanged."""

    def __init__(self) -> None:
        self.memory: list[int] = []

    def begin(self, variables: Variables) -> None:
        pass

    def judge(self, variables: Variables, integration_reward: float) -> tuple[float, bool]:
        return integration_reward, False


@dataclass(frozen=True)
class View:
    """Resizes a picture to a square; each pixel is the mean of the area it covers (OpenCV's INTER_AREA)."""

    size: int
    """Height and width of the observation."""
    grey: bool
    """Brightness instead of colours."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.size, self.size, 1 if self.grey else 3)

    def of(self, picture: np.ndarray) -> np.ndarray:
        """[size, size, channels] uint8 observation of a picture [H, W, 3]."""
        channels = (picture @ LUMA)[..., None] if self.grey else picture
        rows = _area_means(channels, self.size)  # [size, W, channels]
        transposed = _area_means(np.ascontiguousarray(rows.swapaxes(0, 1)), self.size)  # [size, size, channels]
        return np.rint(transposed).astype(np.uint8).swapaxes(0, 1)


def _area_means(pixels: np.ndarray, size: int) -> np.ndarray:
    """[size, ...] means over `size` intervals of equal length of the first axis of [length, ...]."""
    indices, weights = _area_weights(len(pixels), size)
    # A sum over the few pixels of each interval; most entries of a matrix product would be 0.
    total = weights[0] * pixels[indices[0]].reshape(size, -1)
    for k in range(1, len(indices)):
        total += weights[k] * pixels[indices[k]].reshape(size, -1)
    return total.reshape(size, *pixels.shape[1:])


@lru_cache
def _area_weights(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels that each of `size` intervals of `length` pixels overlaps, and their weights: [most, size], [.., 1]."""
    edges = np.arange(size + 1) * (length / size)
    first = np.floor(edges[:-1]).astype(int)
    most = int((np.ceil(edges[1:]) - first).max())
    pixels = first + np.arange(most)[:, None]
    overlap = np.minimum(pixels + 1, edges[1:]) - np.maximum(pixels, edges[:-1])
    weights = np.clip(overlap, 0, None) * (size / length)
    return np.minimum(pixels, length - 1), weights[..., None].astype(np.float32)


@dataclass(frozen=True)
class Setting:
    """A game with its start states, view and limits."""

    game: Game
    states: Sequence[Path]
    """Start states, of which each episode draws one; empty: power-on."""
    view: View
    repeat: int
    """Frames per step."""
    noops: int
    """An episode starts with 0 to `noops` steps without buttons."""
    max_steps: int
    """Steps after which an episode is truncated."""
    addresses: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Further variables: address in the console's memory and type, in the notation of integrations."""

    def __post_init__(self) -> None:
        limits = {"repeat": (self.repeat, 1), "noops": (self.noops, 0), "max_steps": (self.max_steps, 1)}
        for name, (value, least) in {**limits, "size": (self.view.size, SMALLEST_IMAGE)}.items():
            if value < least:
                raise UserError(f"{self.game.id}: option {name} must be at least {least}, got {value}")


class RetroGame(gymnasium.Env):
    """One game in one emulator, of which a process can hold only one.

    The emulator is deterministic: the start state, the number of no-ops and the actions determine an episode.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as in Gymnasium
    render_mode = "rgb_array"
    saves_state = True
    """As in `EpisodeEnv`."""

    def __init__(self, setting: Setting, controls: Controls, rules: Rules, record: str | bool = False):
        """`record`: a folder for stable-retro's own recordings of the buttons of each frame."""
        self._setting, self._controls, self._rules = setting, controls, rules
        self.retro = stable_retro.make(
            setting.game.id,
            state=stable_retro.State.NONE,
            inttype=integration_type(setting.game),
            use_restricted_actions=stable_retro.Actions.ALL,
            render_mode="rgb_array",
            record=record,
        )
        for name, (address, kind) in setting.addresses.items():
            self.retro.data.set_variable(name, {"address": address, "type": kind})
        self._power_on = self.retro.em.get_state()
        self._variables: Variables = {}
        self._steps = 0
        self.observation_space = gymnasium.spaces.Box(0, 255, setting.view.shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(controls.num_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._choose_state()
        picture, _ = self.retro.reset()
        for _ in range(int(self.np_random.integers(self._setting.noops + 1)) * self._setting.repeat):
            picture = self.retro.step(self._mask(()))[0]
        self._variables = self.retro.data.lookup_all()
        self._controls.begin(self._variables)
        self._rules.begin(self._variables)
        self._steps = 0
        return self._setting.view.of(picture), dict(self._variables)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of `action`; the reward is the sum over the frames."""
        mask = self._mask(self._controls.press(int(action), self._variables))
        reward = 0.0
        for _ in range(self._setting.repeat):
            picture, integration_reward, terminated, _, self._variables = self.retro.step(mask)
            frame_reward, rules_end = self._rules.judge(self._variables, float(integration_reward))
            reward, terminated = reward + frame_reward, terminated or rules_end
            if terminated:
                break
        self._steps += 1
        truncated = not terminated and self._steps >= self._setting.max_steps
        return self._setting.view.of(picture), reward, terminated, truncated, dict(self._variables)

    def get_state(self) -> bytes:
        """The full state of the episode: one line of JSON, then the compressed state of the emulator."""
        own_state = {"steps": self._steps, "controls": self._controls.memory, "rules": self._rules.memory}
        return json.dumps(own_state).encode() + b"\n" + zlib.compress(self.retro.em.get_state(), level=1)

    def set_state(self, state: bytes) -> None:
        """Recover the state of an earlier `get_state`; must follow a `reset`."""
        line, _, compressed = state.partition(b"\n")
        own_state = json.loads(line)
        if not self.retro.em.set_state(zlib.decompress(compressed)):
            raise UserError(
                f"{self._setting.game.id}: this version of stable-retro cannot read the state that was saved"
            )
        self.retro.data.update_ram()  # rewards are differences to the memory of the previous frame
        self._variables = self.retro.data.lookup_all()
        self._steps = own_state["steps"]
        self._controls.memory, self._rules.memory = own_state["controls"], own_state["rules"]

    def render(self) -> np.ndarray:
        """[H, W, 3] the picture of the console."""
        return self.retro.get_screen(apply_rotation=True)

    def close(self) -> None:
        self.retro.close()

    def _choose_state(self) -> None:
        states = self._setting.states
        if states:
            path = states[int(self.np_random.integers(len(states)))]
            self.retro.statename, self.retro.initial_state = path.stem, read_state(path)
        else:  # without a state, stable-retro would continue the previous episode
            self.retro.statename, self.retro.initial_state = "power-on", self._power_on

    def _mask(self, buttons: Sequence[str]) -> np.ndarray:
        """[number of buttons] uint8, 1 for each button in `buttons`."""
        return np.array([button in buttons for button in self.retro.buttons], np.uint8)
