"""One writer per run directory.

The operating system holds the lock for the process and releases it when the process ends, however it ends, so a crash
leaves nothing to clean up. Between processes of one machine this is a promise; on a network file system it is only as
good as the locks of that file system.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

from masp.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


NO_LOCKS = "the file system has no locks; make sure that no other process writes this run"
_HELD_BY_ANOTHER = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class RunLock:
    """Held while a run is written; `UserError` if another process holds it."""

    held = True
    """False: the file system has no locks."""

    def __init__(self, folder: Path):
        self._path = folder / ".lock"
        # Without following a link, so that nobody's file is emptied.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._file: Any = open(os.open(self._path, flags, 0o666), "r+")  # noqa: SIM115 - closed by release()
        try:
            _lock(self._file)
        except OSError as error:
            if error.errno in _HELD_BY_ANOTHER:
                self._refuse(folder)
            self.held = False
            return
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let others write; the empty lock file stays, because removing it could remove somebody else's lock."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()

    def _refuse(self, folder: Path) -> NoReturn:
        self._file.seek(0)
        owner = self._file.read(200).strip() or "another process"
        self._file.close()
        raise UserError(f"{folder} is being written by {owner}; wait for it, or choose another --out")


def is_being_written(folder: Path) -> bool:
    """Whether a living process of this machine says that it writes the run; takes no lock itself."""
    try:
        owner = (folder / ".lock").read_text()[:200].split()
        os.kill(int(owner[1]), 0)
    except PermissionError:  # it lives, and belongs to somebody else
        return True
    except (OSError, ValueError, IndexError, OverflowError):
        return False
    return True


def _lock(file: Any) -> None:
    """Lock an open file for this process; `OSError` if another process holds it or there are no locks."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
