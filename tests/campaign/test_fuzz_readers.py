"""A short form of the campaign over all readers; the same inputs every time."""

from __future__ import annotations

import pytest
from fuzz_readers import Tally, fuzz, readers, try_input


@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.name)
def test_damaged_files_are_read_or_refused_with_one_line(reader, tmp_path, capsys):
    tally = fuzz(reader, 300, seed=1)
    assert tally.others == 0, capsys.readouterr().err
    assert tally.refused > 0 and tally.accepted > 0


@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.name)
def test_campaign_begins_from_files_that_are_valid(reader, tmp_path):
    tally = Tally()
    assert try_input(reader, reader.encode(reader.data), tmp_path, tally) is None
    assert tally.accepted == 1
