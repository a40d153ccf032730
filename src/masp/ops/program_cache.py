"""Compiled programs kept on disk, so that the next process need not compile them again.

A library must not write files that nobody asked for: commands call `cache_programs`, and nothing else in the package
does. JAX's own cache writes entries in place, never replaces a damaged one, and needs a further package to be bounded;
JAX therefore keeps the keys and the programs here, and `ProgramFolder` keeps the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path

import jax

from masp.whole_file import whole_file

MAX_BYTES = 512 * 2**20
"""Size of a folder of programs, those of all kinds of processors together; the least recently used ones go."""
_SUFFIX = ".program"
_DIGEST_BYTES = hashlib.sha256().digest_size


def cache_programs(folder: Path | None = None) -> None:
    """Keep the programs that this process compiles from now on. Call it after `tune_this_process`.

    No-op with `MASP_PROGRAM_CACHE=0` in the environment; without `folder`, also where the user has chosen a folder
    with `JAX_COMPILATION_CACHE_DIR`. A folder that cannot be written changes nothing.

    Args:
      folder: where to keep them; None: in the user's cache folder.
    """
    if os.environ.get("MASP_PROGRAM_CACHE", "1") == "0":
        return
    if folder is None and jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return
    from jax._src import compilation_cache

    if not hasattr(compilation_cache, "get_file_cache"):  # another version of JAX: not worth a failure
        return
    folder = (user_folder() if folder is None else folder).absolute()
    # JAX has no public way to say how entries are stored.
    compilation_cache.get_file_cache = _open  # type: ignore[assignment]
    jax.config.update("jax_compilation_cache_dir", str(folder / processor_kind()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # GPU only; adds the folder to keys
    compilation_cache.reset_cache()  # a compilation at import may have initialised it without a folder


def user_folder() -> Path:
    """`programs` in the folder for caches that the user's platform names."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        base = Path(chosen)
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches").expanduser()
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path("~/AppData/Local").expanduser())
    else:
        base = Path("~/.cache").expanduser()
    return base / "masp" / "programs"


@cache
def processor_kind() -> str:
    """A name for the processors that can run each other's programs: XLA uses the instructions that it finds.

    It also splits operations for the number of threads that it may use.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        flags = platform.processor()
    threads = os.environ.get("PJRT_NPROC") or os.cpu_count()
    return hashlib.sha256(f"{platform.machine()} {flags} {threads} {jax.__version__}".encode()).hexdigest()[:12]


class ProgramFolder:
    """A cache as JAX expects it. Processes may share it: entries appear whole, and each carries its checksum."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES):
        self._path, self._max_bytes = path, max_bytes

    def get(self, key: str) -> bytes | None:
        """The program with this key; None without one. A damaged one is removed, so that it is compiled again."""
        file = self._path / f"{key}{_SUFFIX}"
        try:
            content = file.read_bytes()
        except OSError:
            return None
        digest, program = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        with contextlib.suppress(OSError):
            if hashlib.sha256(program).digest() != digest:
                file.unlink()
                return None
            os.utime(file)  # used last now
        return program

    def put(self, key: str, program: bytes) -> None:
        """Keep a program, as far as the disk allows."""
        content = hashlib.sha256(program).digest() + program
        with contextlib.suppress(OSError):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(content))
            with whole_file(self._path / f"{key}{_SUFFIX}") as file:
                file.write(content)

    def _make_room(self, size: int) -> None:
        """Remove programs, those that were not used for longest first, until `size` bytes fit."""
        entries = []
        for file in self._path.parent.glob(f"*/*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # another process may have removed it
                about = file.stat()
                entries.append((about.st_mtime_ns, about.st_size, file))
        excess = size + sum(size for _, size, _ in entries) - self._max_bytes
        for _, freed, file in sorted(entries):
            if excess <= 0:
                return
            with contextlib.suppress(OSError):
                file.unlink()
            excess -= freed


def _open(path: str) -> tuple[ProgramFolder, str]:
    return ProgramFolder(Path(path)), path
