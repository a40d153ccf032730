"""Text from files, made harmless for a terminal, for rich and for matplotlib."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that are no text: control, format, half surrogates, separators of lines."""


def printable(text: str) -> str:
    """`text` with U+FFFD in place of control characters, such as those of escape sequences and line ends."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(letter) in _HIDDEN else letter for letter in text)


def printable_lines(text: str) -> str:
    """The same, but line ends are kept."""
    return "\n".join(map(printable, text.split("\n")))


def rich_text(text: str, lines: bool = False) -> Text:
    """`text` to show by rich as it is: no markup, no emoji for their names. With `lines`, line ends are kept."""
    from rich.text import Text

    return Text(printable_lines(text) if lines else printable(text))


def figure_text(text: str) -> str:
    """`text` to show by matplotlib as it is: dollar signs begin no formula, an underscore hides it from no legend."""
    shown = printable(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
