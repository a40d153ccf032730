"""Campaigns set the period of checkpoints for their process; after each of their tests it is what it was."""

import pytest

from masp.training import session


@pytest.fixture(autouse=True)
def periods_come_back(monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", session.CHECKPOINT_SECONDS)
    monkeypatch.setattr(session, "CHUNK_SECONDS", session.CHUNK_SECONDS)
