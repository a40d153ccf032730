"""Searching for settings with Optuna (extra `tune`)."""

from __future__ import annotations

from masp.errors import UserError

try:
    import optuna as _optuna  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "optuna":
        raise
    raise UserError("masp tune needs Optuna: pip install 'masp-rl[tune]'") from None
