"""One writer per run directory, also after a crash."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from masp.errors import UserError
from masp.training import lock
from masp.training.lock import RunLock

HOLDER = """
import sys, time
from pathlib import Path
from masp.training.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_second_process_is_refused_and_a_kill_frees_the_lock(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"is being written by process {holder.pid}; wait for it, or choose"):
            RunLock(tmp_path)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    RunLock(tmp_path).release()


def test_lock_is_free_after_release(tmp_path):
    first = RunLock(tmp_path)
    with pytest.raises(UserError, match="is being written by process"):
        RunLock(tmp_path)
    first.release()
    first.release()
    RunLock(tmp_path).release()


def test_file_system_without_locks(tmp_path, monkeypatch):
    def unsupported(file):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_lock", unsupported)
    run_lock = RunLock(tmp_path)
    assert not run_lock.held
    run_lock.release()
