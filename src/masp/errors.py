"""Errors that a user can do something about; the command line shows them as one line. All others are our bugs."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake in what the user gave us; the message says what is wrong, where, and what to do."""

    exit_code = 2


class TrainingError(UserError):
    """A run that cannot go on; what was saved before stays."""

    exit_code = 1
