"""Exactly one process may run a unit, whatever happens to it."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from masp.experiments import claims

HOLD = """
import sys, time
from pathlib import Path
from masp.experiments import claims
claim = claims.take(Path(sys.argv[1]))
claim.report({"frames": 7})
claim._beat()
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the claim of `tmp_path`."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_claim_excludes_others_until_released(tmp_path):
    first = claims.take(tmp_path)
    assert first is not None
    assert claims.take(tmp_path) is None
    first.release()
    second = claims.take(tmp_path)
    assert second is not None
    second.release()
    assert claims.holder(tmp_path) is None


def test_a_live_process_keeps_its_claim_and_reports_progress(tmp_path, holder):
    assert claims.take(tmp_path) is None
    message = claims.holder(tmp_path)
    assert message is not None and message["pid"] == holder.pid and message["progress"] == {"frames": 7}


def test_a_stopped_process_of_this_machine_keeps_its_claim(tmp_path, holder):
    """A suspended laptop has no heartbeat, but its processes live."""
    holder.send_signal(signal.SIGSTOP)
    for file in tmp_path.glob("*.json"):
        os.utime(file, (0, 0))
    assert claims.take(tmp_path) is None
    holder.send_signal(signal.SIGCONT)


def test_the_claim_of_a_killed_process_is_taken_at_once(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    claim = claims.take(tmp_path)
    assert claim is not None
    claim.release()


def test_only_one_of_many_takes_a_stale_claim(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with ThreadPoolExecutor(16) as pool:
        winners = [claim for claim in pool.map(lambda _: claims.take(tmp_path), range(64)) if claim is not None]
    assert len(winners) == 1
    winners[0].release()


def test_another_machine_is_judged_by_its_heartbeat(tmp_path, holder):
    (file,) = tmp_path.glob("*.json")
    holder.kill()
    holder.wait()
    file.write_text(json.dumps({**json.loads(file.read_text()), "machine": "another"}))
    assert claims.take(tmp_path) is None
    old = time.time() - claims.STALE_SECONDS - 1
    os.utime(file, (old, old))
    claim = claims.take(tmp_path)
    assert claim is not None
    claim.release()


def test_a_holder_that_lost_its_claim_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 0.01)
    claim = claims.take(tmp_path)
    assert claim is not None
    other = tmp_path / "2.json"
    other.write_text("{}")
    deadline = time.monotonic() + 10
    while not claim.lost and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(claims.ClaimLostError):
        claim.report({})
    claim.release()
    assert other.exists()


def test_a_reused_process_id_is_not_the_same_process(tmp_path):
    """The start time distinguishes processes with the same id."""
    claim = claims.take(tmp_path)
    assert claim is not None
    claim.release()
    message = {**claims._this_process(), "started": "1", "progress": {}}
    (tmp_path / "1.json").write_text(json.dumps(message))
    again = claims.take(tmp_path)
    assert again is not None
    again.release()
