"""JSON that others may have written, parsed with a clear error; and JSON that is always valid, written."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from masp.errors import UserError
from masp.whole_file import whole_file

MAX_BYTES = 1 << 28
"""Largest file that is read at once; real ones are far smaller."""


def parse(text: str | bytes, where: str, constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text, or a `UserError` that names the source and the place.

    Args:
      constant: gives the value of NaN and Infinity, which are not JSON; None: they are an error.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, parse_constant=constant or _refuse_constant)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: broken JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise UserError(f"{where}: brackets are nested thousands deep") from None
    except ValueError as error:  # a constant, or an integer of thousands of digits
        raise UserError(f"{where}: {str(error).partition(';')[0]}") from None


def read(path: Path) -> Any:
    """The value in a JSON file, or a `UserError` that names the file and the place."""
    return parse(read_bytes(path), str(path))


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a file of moderate size, or a `UserError`."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            known = stat.S_ISREG(about.st_mode)  # a pipe or a device does not say how much it will give
            content = b"" if about.st_size > limit else file.read() if known else file.read(limit + 1)
        if (size := max(about.st_size, len(content))) > limit:
            raise UserError(f"{path}: {size:,} bytes are more than the {limit:,} that such a file can have")
        return content
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None


def dumps(data: Any, indent: int | None = None) -> str:
    """Valid JSON: numbers that are not finite become null."""
    try:
        return json.dumps(data, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nonfinite(data), indent=indent, allow_nan=False)


def write(path: Path, data: Any) -> None:
    """Replace the file whole."""
    replace_text(path, dumps(data, indent=1) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Replace the file whole or not at all; of several processes that do so at once, one wins."""
    with whole_file(path) as file:
        file.write(text.encode())


def is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number that fits a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_text(value: Any) -> bool:
    """Whether a JSON value is a string that can be encoded and used in a path."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def shortened(value: Any) -> str:
    """A value for an error message, on one line and not too long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits or brackets
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= 80 else f"{text[:77]}..."


def first_line(error: BaseException) -> str:
    """What a library says about a file, for an error message: on one line and not too long."""
    line = next(iter(str(error).splitlines()), "").strip() or type(error).__name__
    return line if len(line) <= 200 else f"{line[:197]}..."


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _without_nonfinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nonfinite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nonfinite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
