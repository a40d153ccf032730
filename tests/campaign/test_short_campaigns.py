"""Short forms of the campaigns over checkpoints; `test_fuzz_readers.py` has that over readers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import damage

HERE = Path(__file__).parent


def test_processes_killed_inside_a_write_leave_a_usable_checkpoint():
    command = [sys.executable, HERE / "kill_in_write.py", "--kills", "5"]  # forks, so it must not run in this process
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "kills inside a write 5, usable afterwards 5" in done.stdout


def test_damaged_files_of_a_run_are_found():
    tally = damage.campaign(damages=60, seed=0)
    assert tally.total() == 60
    assert not [place for place in tally if not place[2]]
