"""What is read as JSON is bounded, whatever gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from masp import json_text
from masp.errors import UserError


def test_size_is_limited_before_the_content_is_read(tmp_path):
    (tmp_path / "file.json").write_bytes(bytes(101))
    with pytest.raises(UserError, match="101 bytes are more than the 100"):
        json_text.read_bytes(tmp_path / "file.json", 100)
    assert json_text.read_bytes(tmp_path / "file.json", 101) == bytes(101)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no device that never ends")
def test_what_never_ends_is_refused():
    with pytest.raises(UserError, match="101 bytes are more than the 100"):
        json_text.read_bytes(Path("/dev/zero"), 100)
