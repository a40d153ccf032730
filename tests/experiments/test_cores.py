"""Cores, on systems with and without calls for them."""

from __future__ import annotations

import os

import pytest

from masp import UserError
from masp.experiments.cores import pin_to, possible_jobs, usable_cores


def test_all_cores_count_where_the_system_does_not_say(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usable_cores() == [0, 1, 2]
    assert possible_jobs(None, 2) == 2
    pin_to([99])


def test_windows_runs_one_unit_at_a_time(monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    assert possible_jobs(None, 4) == possible_jobs(1, 4) == 1
    with pytest.raises(UserError, match="--jobs 2: on Windows units run one after another"):
        possible_jobs(2, 4)
    monkeypatch.setattr("sys.platform", "linux")
    assert possible_jobs(7, 4) == 7
