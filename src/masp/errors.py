"""Errors that a user can do something about; the command line shows them as one line. All others are our bugs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in the user's input; the message says what is wrong, where, and what to do.

    Examples:
      >>> import masp
      >>> try:
      ...     masp.make_config("planted-grid", learning_rat=0.1)
      ... except masp.UserError as error:
      ...     print(error)
      there is no setting 'learning_rat'; did you mean learning_rate?
    """

    exit_code = 2


class TrainingError(UserError):
    """A run that cannot go on; what was saved before stays."""

    exit_code = 1


class UserCodeError(TrainingError):
    """Raised because code of the user raised (an environment, a callback), whose traceback is then worth showing."""


class LineWarning(UserWarning):
    """Something that a person should know, which the command line shows as one line."""


class RestartWarning(LineWarning):
    """A process of an environment was started anew."""


class ReadingWarning(LineWarning):
    """A part of a file that was left out because it cannot be used."""


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """`did you mean A or B?` with the names most similar to a misspelt one; without one, `otherwise`."""
    name = name[:80].lower()
    scores = {known: difflib.SequenceMatcher(None, name, known.lower()).ratio() for known in dict.fromkeys(names)}
    best = max(scores.values(), default=0.0)
    similar = sorted((known for known in scores if scores[known] >= max(0.6, best - 0.08)), key=lambda n: -scores[n])
    return f"did you mean {' or '.join(similar[:3])}?" if similar else otherwise
