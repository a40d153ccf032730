"""Fixture that makes small play cross the chunks of mining."""

import pytest


@pytest.fixture(params=[1 << 20, 7, 64], ids=["one-chunk", "tiny-chunks", "long-keys"])
def chunk_size(request, monkeypatch):
    """Run a test with chunks larger and smaller than the play, and as if a position did not fit beside a window."""
    if request.param == 64:
        monkeypatch.setattr("masp.macros.mining.coverage._POSITION_BITS", 64)
    monkeypatch.setattr("masp.macros.mining.counting._ROWS_PER_CHUNK", request.param)
    monkeypatch.setattr("masp.macros.mining.coverage._ROWS_PER_CHUNK", request.param)
    return request.param
