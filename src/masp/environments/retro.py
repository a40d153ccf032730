"""One game of stable-retro as a Gymnasium environment: a choice of buttons held for some frames, images of one size.

What a choice of buttons means is the matter of `Controls`, rewards and ends are that of `Rules`; Street Fighter has its
own of both.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_retro

from masp.environments.gym_vector import SMALLEST_IMAGE
from masp.environments.retro_controls import Controls, Rules, Variables
from masp.environments.retro_games import Game, integration_type, read_state
from masp.environments.retro_view import View
from masp.errors import UserError


@dataclass(frozen=True)
class Setting:
    """How a game is played."""

    game: Game
    states: Sequence[Path]
    """Where episodes may begin, one drawn for each; none: at power on."""
    view: View
    repeat: int
    """Frames that a step holds its buttons for."""
    noops: int
    """An episode begins after 0 to so many steps without buttons."""
    max_steps: int
    """Steps after which an episode is cut."""
    addresses: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Further variables: address in the console's memory and type, as integrations write them."""

    def __post_init__(self) -> None:
        limits = {"repeat": (self.repeat, 1), "noops": (self.noops, 0), "max_steps": (self.max_steps, 1)}
        for name, (value, least) in {**limits, "size": (self.view.size, SMALLEST_IMAGE)}.items():
            if value < least:
                raise UserError(f"{self.game.id}: option {name} must be at least {least}, got {value}")


class RetroGame(gymnasium.Env):
    """The emulator is deterministic: an episode is where it begins, how many no-ops it begins with, and its actions.

    There can be one in a process only.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium declares it
    render_mode = "rgb_array"

    def __init__(self, setting: Setting, controls: Controls, rules: Rules, record: str | bool = False):
        """`record`: a folder for stable-retro's own recordings of the buttons held in every frame."""
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
        """Hold the buttons of `action`; rewards are summed over the frames."""
        mask = self._mask(self._controls.press(int(action), self._variables))
        reward = 0.0
        for _ in range(self._setting.repeat):
            picture, paid, ended, _, self._variables = self.retro.step(mask)
            earned, over = self._rules.judge(self._variables, float(paid))
            reward, ended = reward + earned, ended or over
            if ended:
                break
        self._steps += 1
        cut = not ended and self._steps >= self._setting.max_steps
        return self._setting.view.of(picture), reward, ended, cut, dict(self._variables)

    def get_state(self) -> bytes:
        """Everything that the rest of the episode depends on: a line of JSON, then the emulator's own state, packed."""
        ours = {"steps": self._steps, "controls": self._controls.memory, "rules": self._rules.memory}
        return json.dumps(ours).encode() + b"\n" + zlib.compress(self.retro.em.get_state(), level=1)

    def set_state(self, state: bytes) -> None:
        """Go to where `get_state` was called; comes after a `reset`."""
        head, _, packed = state.partition(b"\n")
        ours = json.loads(head)
        if not self.retro.em.set_state(zlib.decompress(packed)):
            raise UserError(
                f"{self._setting.game.id}: this version of stable-retro cannot read the state that was saved"
            )
        self.retro.data.update_ram()  # rewards are differences to the memory of the frame before
        self._variables = self.retro.data.lookup_all()
        self._steps, self._controls.memory, self._rules.memory = ours["steps"], ours["controls"], ours["rules"]

    def render(self) -> np.ndarray:
        """[H, W, 3] the picture as the console shows it."""
        return self.retro.get_screen(apply_rotation=True)

    def close(self) -> None:
        self.retro.close()

    def _choose_state(self) -> None:
        states = self._setting.states
        if states:
            path = states[int(self.np_random.integers(len(states)))]
            self.retro.statename, self.retro.initial_state = path.stem, read_state(path)
        else:  # stable-retro would go on from where the last episode ended
            self.retro.statename, self.retro.initial_state = "power-on", self._power_on

    def _mask(self, buttons: Sequence[str]) -> np.ndarray:
        """[number of buttons] 1 where held."""
        return np.array([button in buttons for button in self.retro.buttons], np.uint8)
