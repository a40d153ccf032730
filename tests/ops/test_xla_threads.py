"""One thread for XLA where our kernels do nearly everything, and only there."""

from __future__ import annotations

import os

import pytest

from masp.ops import xla_threads


@pytest.mark.parametrize(
    ("env", "built", "threads"),
    [
        ("minatar-breakout", True, "1"),
        ("minatar-breakout", False, None),
        ("Breakout", True, "1"),
        ("CartPole-v1", True, None),
    ],
)
def test_when(monkeypatch, env, built, threads):
    monkeypatch.setenv("PJRT_NPROC", "")
    monkeypatch.delenv("PJRT_NPROC")
    monkeypatch.setattr(xla_threads, "built", lambda: built)
    xla_threads.leave_cores_to_kernels(env)
    assert os.environ.get("PJRT_NPROC") == threads


def test_a_choice_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("PJRT_NPROC", "2")
    xla_threads.leave_cores_to_kernels("minatar-breakout")
    assert os.environ["PJRT_NPROC"] == "2"
