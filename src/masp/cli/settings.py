"""The settings of `masp train`: default, preset, file, shorthand, flag, in this order, and where each comes from."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masp.cli.flags import given_flags
from masp.config import TrainConfig, field_sections, replace, to_flat
from masp.errors import UserError
from masp.presets import PAPER, PRESETS, default_preset, from_preset


@dataclass(frozen=True)
class Settings:
    """A configuration, and the origin of each of its fields."""

    config: TrainConfig
    origins: dict[str, str] = field(default_factory=dict)
    """Field to where its value comes from; fields that are left out have their default."""

    def with_layer(self, origin: str, changes: Mapping[str, Any]) -> Settings:
        """The same with some fields replaced."""
        origins = self.origins | dict.fromkeys(changes, origin)
        return Settings(replace(self.config, **changes), origins) if changes else self

    def resolved(self) -> Settings:
        """With what the variant implies made explicit."""
        before, after = to_flat(self.config), to_flat(self.config.resolved())
        implied = {name for name in after if after[name] != before[name]}
        origins = self.origins | dict.fromkeys(implied, f"variant {self.config.variant}")
        return Settings(self.config.resolved(), origins)

    def rows(self) -> list[tuple[str, Any, str]]:
        """Name, value and origin of every setting."""
        values = to_flat(self.config)
        return [(name, values[name], self.origins.get(name, "default")) for name in field_sections()]


def settings_of(args: argparse.Namespace) -> Settings:
    """What the arguments of `masp train` describe."""
    settings = _base(args)
    settings = settings.with_layer("--paper", PAPER if args.paper else {})
    if args.bundle:
        settings = settings.with_layer("--bundle", {"macros": args.bundle, "similarity_start": args.bundle})
    settings = settings.with_layer("--frozen", {"meta_learning_rate": 0.0} if args.frozen else {})
    return settings.with_layer("flag", {name: value for name, value in given_flags(args).items() if name != "env"})


def _base(args: argparse.Namespace) -> Settings:
    """The settings of the preset, or of --config."""
    if not args.config:
        if not args.env:
            raise UserError("which environment? Name one, as in 'masp train planted-grid', or give --config FILE")
        return _preset(args.preset, args.env)
    from masp.training.config_file import read_config, read_toml

    config = read_config(args.config, args.env, args.preset)
    if not str(args.config).endswith(".toml"):
        return Settings(config, dict.fromkeys(field_sections(), str(args.config)))
    preset, named = read_toml(args.config)
    origins = _preset(preset if args.preset == "auto" else args.preset, config.env).origins
    return Settings(config, origins | dict.fromkeys(named, str(args.config)))


def _preset(name: str, env: str) -> Settings:
    config = from_preset(name, env)
    name = default_preset(env) if name == "auto" else name
    return Settings(config, dict.fromkeys(PRESETS[name], f"preset {name}") | {"env": "argument"})
