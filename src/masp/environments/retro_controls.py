"""What actions mean to a game of stable-retro, what it pays, and when its episodes end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Variables = Mapping[str, int]
"""Numbers of the game's memory, by the names that its integration gives them."""


class Controls(Protocol):
    """From actions to buttons."""

    memory: list[int]
    """All that it remembers of the episode."""

    @property
    def num_actions(self) -> int: ...

    def begin(self, variables: Variables) -> None:
        """A new episode begins in a game that is in this state."""
        ...

    def press(self, action: int, variables: Variables) -> Sequence[str]:
        """Names of the buttons to hold for one step."""
        ...


class Rules(Protocol):
    """What a frame pays, and when an episode ends besides where the integration says so."""

    memory: list[int]
    """All that it remembers of the episode."""

    def begin(self, variables: Variables) -> None: ...

    def judge(self, variables: Variables, paid: float) -> tuple[float, bool]:
        """The reward of the frame that led to this state, and whether it was the last; called for every frame.

        Args:
          paid: what the integration pays for it.
        """
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


class AsIntegrated:
    """An episode pays what the integration pays, and ends where that says so."""

    def __init__(self) -> None:
        self.memory: list[int] = []

    def begin(self, variables: Variables) -> None:
        pass

    def judge(self, variables: Variables, paid: float) -> tuple[float, bool]:
        return paid, False
