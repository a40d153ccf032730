"""Files that are replaced whole or not at all: who reads one sees the old content or the new one, never a part.

The content goes to a file of another name, in the same folder, that no other process uses; it is made durable and then
takes the name. A symbolic link of that name is replaced and what it points to is left alone. What cannot be replaced,
such as /dev/null, a terminal or a pipe, is written directly.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write the content of `path` to; at the end of the block the content is durable and in place."""
    target = Path(path)
    special = _is_special(target)
    partial = target if special else target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.partial")
    try:
        # Exclusive, so that it follows no link; the mode of the file follows the umask.
        with open(partial, "wb" if special else "xb") as file:
            yield file
            file.flush()
            if not special:
                os.fsync(file.fileno())
        if not special:
            os.replace(partial, target)
    except OSError as error:
        if error.filename in (None, str(partial)):
            error.filename, error.filename2 = str(target), None  # the name that the user knows
        raise
    finally:
        if not special:
            with contextlib.suppress(OSError):  # which would hide the error that ended the block
                partial.unlink(missing_ok=True)
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems cannot sync folders
        pass
    finally:
        os.close(descriptor)


def _is_special(path: Path) -> bool:
    """Whether something that is neither a file nor a folder has this name, also behind links such as /dev/stdout."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
