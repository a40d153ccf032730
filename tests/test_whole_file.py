"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from masp.whole_file import whole_file


def test_old_content_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), whole_file(path) as file:
        file.write(b"ne")
        assert path.read_bytes() == b"old"
        raise RuntimeError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    with whole_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_links_are_replaced_and_not_followed(tmp_path):
    other, link = tmp_path / "other", tmp_path / "link"
    other.write_bytes(b"somebody else's")
    link.symlink_to(other)
    with whole_file(link) as file:
        file.write(b"ours")
    assert other.read_bytes() == b"somebody else's" and not link.is_symlink() and link.read_bytes() == b"ours"


def test_pipes_and_devices_stay_what_they_are(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_file(pipe) as file:
            file.write(b"through")
        assert os.read(reader, 100) == b"through" and stat.S_ISFIFO(pipe.stat().st_mode)
    finally:
        os.close(reader)


def test_mode_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "file") as file:
            file.write(b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_errors_name_the_file_that_the_user_asked_for(tmp_path):
    target = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as caught, whole_file(target):
        pass
    assert caught.value.filename == str(target)
    with pytest.raises(IsADirectoryError) as caught_folder, whole_file(tmp_path):
        pass
    assert caught_folder.value.filename == str(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
def test_full_device_is_named():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"), whole_file("/dev/full") as file:
        file.write(b"1")


def test_long_names_are_possible(tmp_path):
    with whole_file(tmp_path / ("x" * 255)) as file:
        file.write(b"1")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"1"
