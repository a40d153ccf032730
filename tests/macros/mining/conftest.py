"""Chunks of a size that small play crosses."""

import pytest


@pytest.fixture(params=[1 << 20, 7, 64], ids=["one-chunk", "tiny-chunks", "long-keys"])
def chunk_size(request, monkeypatch):
    """Run a test with chunks larger and smaller than the play, and as if no place fitted beside a window."""
    if request.param == 64:
        monkeypatch.setattr("masp.macros.mining.occurrences._PLACE_BITS", 64)
    monkeypatch.setattr("masp.macros.mining.counting._WINDOWS_PER_CHUNK", request.param)
    monkeypatch.setattr("masp.macros.mining.coverage._WINDOWS_PER_CHUNK", request.param)
    monkeypatch.setattr("masp.macros.mining.occurrences._WINDOWS_PER_CHUNK", request.param)
    monkeypatch.setattr("masp.macros.mining.windows._ROWS_PER_CHUNK", request.param)
    return request.param
