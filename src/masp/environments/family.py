"""A family of environments: what it is called, what must be installed for it, how one of it is made."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from masp.environments.base import HostEnv, JaxEnv
from masp.errors import UserError

Option = bool | int | float | str
Env = TypeVar("Env")


@dataclass(frozen=True)
class Package:
    """What pip installs."""

    module: str
    """What must be importable; empty: nothing."""
    extra: str
    """The extra of this distribution that installs it; empty: it comes with masp."""
    brings: str = ""
    """The environments that need it, where not all of a family do."""

    @property
    def installed(self) -> bool:
        return not self.module or importlib.util.find_spec(self.module) is not None

    @property
    def install_line(self) -> str:
        """What to type to get it."""
        return f"pip install 'masp-rl[{self.extra}]'" if self.extra else "pip install masp-rl"

    def require_installed(self, what: str) -> None:
        if not self.installed:
            raise UserError(f"{what} needs the package {self.module}: {self.install_line}")


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

    backends: tuple[Package, ...] = ()
    """Other programs that can play the same environments, by the option backend=MODULE."""
    optional: tuple[Package, ...] = ()
    """What only some of its environments need."""

    @property
    def needs(self) -> Package:
        return Package(self.package, self.extra)

    @property
    def installed(self) -> bool:
        return self.needs.installed

    @property
    def install_line(self) -> str:
        """What to type to get it."""
        return self.needs.install_line

    def require_installed(self, env_id: str) -> None:
        self.needs.require_installed(env_id)


def require_known(env_id: str, options: dict[str, Option], valid: Sequence[str] | None) -> None:
    """Raise unless every option is one of `valid`; None: anything goes."""
    for name in options:
        if valid is not None and name not in valid:
            raise UserError(f"{env_id} has no option {name!r}; it has {', '.join(valid) or 'none'}")


def make_with_options(make: Callable[..., Env], env_id: str, options: dict[str, Option]) -> Env:
    """`make(**options)`, once the options are found to fit its signature; every argument has a default."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    require_known(env_id, options, list(defaults))
    for name, value in options.items():
        # A whole number will do for a float, nothing else for an int.
        fitting = (int, float) if isinstance(defaults[name], float) else type(defaults[name])
        if isinstance(value, bool) != isinstance(defaults[name], bool) or not isinstance(value, fitting):
            expected = type(defaults[name]).__name__
            raise UserError(f"{env_id}: option {name} must be of type {expected}, got {value!r}")
    return make(**options)
