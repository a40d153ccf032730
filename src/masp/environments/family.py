"""A family of environments: what it is called, what must be installed for it, how one of it is made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from masp.environments.base import HostEnv, JaxEnv
from masp.errors import UserError

Option = bool | int | float | str


@dataclass(frozen=True)
class Family:
    """Environments that come from one place. The functions import that place's package themselves, when called."""

    name: str
    """What people call it."""
    knows: Callable[[str], bool]
    """Whether an id is one of this family's; answers without the package."""
    make: Callable[[str, dict[str, Option], int], JaxEnv | HostEnv]
    """The environment with an id, from options, so many at once."""
    examples: tuple[str, ...]
    """A few ids to begin with."""
    names: Callable[[], Sequence[str]]
    """All ids, or those worth listing; called only where the package is installed."""
    preset: str
    """The preset that fits when none is named."""
    package: str = ""
    """The module that must be importable; empty: none."""
    extra: str = ""
    """The extra of this distribution that installs it; empty: it comes with masp."""
    stated: tuple[str, ...] = ()
    """Options that the configuration of a run states even where they are left at this value, as name=value."""

    @property
    def installed(self) -> bool:
        return not self.package or importlib.util.find_spec(self.package) is not None

    @property
    def install_line(self) -> str:
        """What to type to get it."""
        return f"pip install 'masp-rl[{self.extra}]'"

    def require_installed(self, env_id: str) -> None:
        if not self.installed:
            raise UserError(f"{env_id} needs the package {self.package}: {self.install_line}")


def require_known(env_id: str, options: dict[str, Option], valid: Sequence[str] | None) -> None:
    """Raise unless every option is one of `valid`; None: anything goes."""
    for name in options:
        if valid is not None and name not in valid:
            raise UserError(f"{env_id} has no option {name!r}; it has {', '.join(valid) or 'none'}")
