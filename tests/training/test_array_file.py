"""Files of arrays: what was written is read, and no damage goes unnoticed."""

from __future__ import annotations

import errno
import json
import os
import struct

import numpy as np
import pytest

from masp.errors import UserError
from masp.training import array_file

ARRAYS = {"weights": np.arange(3, dtype=np.float32), "tick": np.array(7, np.int32), "mask": np.array([True, False])}
ABOUT = {"format": "masp-test", "frames": 12, "nothing": None}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "state.safetensors"
    array_file.save(path, ARRAYS, ABOUT)
    return path


def test_written_and_read(file):
    arrays, about = array_file.read(file)
    assert about == ABOUT == array_file.read_about(file)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_file_mode_follows_the_umask(tmp_path):
    previous = os.umask(0o027)
    try:
        array_file.save(tmp_path / "a", ARRAYS, ABOUT)
    finally:
        os.umask(previous)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_every_flipped_bit_is_found(file):
    content = file.read_bytes()
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            file.write_bytes(damaged)
            with pytest.raises(UserError, match=str(file)):
                array_file.read(file)


def test_every_truncation_is_found(file):
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        with pytest.raises(UserError, match=str(file)) as caught:
            array_file.read(file)
        assert "\n" not in str(caught.value)


def test_header_that_promises_terabytes_is_refused(tmp_path):
    layout = {"x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}
    header = json.dumps(layout).encode()
    (tmp_path / "huge").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 16)
    with pytest.raises(UserError, match="huge"):
        array_file.read(tmp_path / "huge")


def test_policy_with_nan_is_refused(file):
    with pytest.raises(UserError, match=r"\['weights'\] has numbers that are not finite"):
        array_file.fill({"weights": ARRAYS["weights"]}, {"['weights']": np.array([0, np.nan, 1], np.float32)}, file)


@pytest.mark.parametrize("failing", range(6))
def test_disk_full_at_any_write_keeps_the_old_file(failing, file, monkeypatch):
    """The n-th write fails; after the last there is nothing left to fail."""
    before = file.read_bytes()
    calls = iter(range(100))

    def count(function):
        def counted(*args):
            if next(calls) == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args)

        return counted

    real_open = open

    def failing_open(*args, **kwargs):
        handle = count(real_open)(*args, **kwargs) if not kwargs else real_open(*args, **kwargs)
        return Counted(handle, count)

    monkeypatch.setattr("builtins.open", failing_open)
    monkeypatch.setattr(os, "fsync", count(os.fsync))
    with pytest.raises(OSError, match="No space left"):
        array_file.save(file, ARRAYS, {**ABOUT, "frames": 13})
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


class Counted:
    """A file whose writes are counted."""

    def __init__(self, file, count):
        self._file, self.write = file, count(file.write)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)

    def flush(self):
        self._file.flush()

    def fileno(self):
        return self._file.fileno()
