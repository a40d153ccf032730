"""Errors that a user can do something about; the command line shows them as one line. All others are our bugs."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake in what the user gave us; the message says what is wrong, where, and what to do."""

    exit_code = 2


class TrainingError(UserError):
    """A run that cannot go on; what was saved before stays."""

    exit_code = 1


class UserCodeError(TrainingError):
    """Raised because code of the user raised (an environment, a callback), whose traceback is then worth showing."""


class ReadingWarning(UserWarning):
    """A part of a file that was left out because it cannot be used."""
