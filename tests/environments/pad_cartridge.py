"""A hand-written Genesis cartridge that replaces the ROM of Street Fighter II in tests.

stable-retro ships the real integration of the game and the real start state, with memory and picture; only the program
is missing. The replacement logs in each frame the buttons that the console reads from a six-button pad, and leaves the
rest of the memory unchanged.
"""

import gzip
import struct
from pathlib import Path

from masp.environments.retro_games import find_game
from masp.environments.street_fighter import GAME

DIRECTION, DATA = 0xA10009, 0xA10003  # the ports of the first pad
COUNT, LOG = 0xFF9EFE, 0xFF9F00  # where the program writes; three bytes a frame
LINES = (
    {0: "UP", 1: "DOWN", 2: "LEFT", 3: "RIGHT", 4: "B", 5: "C"},
    {4: "A", 5: "START"},
    {0: "Z", 1: "Y", 2: "X", 3: "MODE"},
)
"""Buttons by bit of the three bytes; a bit is 0 while its button is held."""


def cartridge():
    """The ROM: vectors, header, the program of the vertical interrupt, then endless loops."""
    start, end, size = 0x200, 0x300, 0x300000
    vectors = [0xFFFE00] + [end] * 63
    vectors[30] = start
    header = b"SEGA GENESIS".ljust(0x90) + b"J6".ljust(0x60) + b"JUE".ljust(0x10)
    image = struct.pack(">64I", *vectors) + header + _program()
    assert len(image) < end
    return image.ljust(end, b"\0") + b"\x60\xfe" * ((size - end) // 2)


def _program():
    """Machine code of the 68000: read a six-button pad and append three bytes to the log."""

    def select(level):  # move.b #level, DATA, then wait for the pad
        return _words(0x13FC, level, *_long(DATA), *[0x4E71] * 4)

    def read(register):  # move.b DATA, d
        return _words(0x1039 | register << 9, *_long(DATA))

    code = _words(0x13FC, 0x40, *_long(DIRECTION))
    code += select(0x40) + read(0) + select(0) + read(1)
    code += select(0x40) + select(0) + select(0x40) + select(0) + select(0x40) + read(2)
    code += _words(0x3639, *_long(COUNT), 0x41F9, *_long(LOG))  # move.w COUNT, d3; lea LOG, a0
    for register in range(3):
        code += _words(0x1180 | register, 0x3000, 0x5243)  # move.b d, (a0, d3.w); addq.w #1, d3
    return code + _words(0x33C3, *_long(COUNT), 0x4E73)  # move.w d3, COUNT; rte


def _words(*words):
    return struct.pack(f">{len(words)}H", *words)


def _long(address):
    return address >> 16, address & 0xFFFF


def insert_cartridge(folder):
    """Integrations with the cartridge, and a state `Swapped.Level1.RyuVsGuile` with the fighters swapped."""
    game = Path(folder, GAME)
    game.mkdir(parents=True)
    (game / "rom.md").write_bytes(cartridge())
    state = bytearray(gzip.decompress(find_game(GAME).file("Champion.Level1.RyuVsGuile.state").read_bytes()))
    x, enemy_x = (16 + 0x8006, 16 + 0x8286)  # a header of 16 bytes, then the memory from 0xFF0000 on
    state[x : x + 2], state[enemy_x : enemy_x + 2] = state[enemy_x : enemy_x + 2], state[x : x + 2]
    (game / "Swapped.Level1.RyuVsGuile.state").write_bytes(gzip.compress(state, 1))
    return str(folder)


def frames_logged(retro):
    """Number of frames since the memory was loaded."""
    return _peek(retro, COUNT, ">u2") // 3


def read_log(retro, since):
    """Sets of buttons that the console read in each frame from `since` on."""
    frames = []
    for frame in range(since, frames_logged(retro)):
        bytes_read = [_peek(retro, LOG + 3 * frame + i, "|u1") for i in range(3)]
        buttons = (
            line[bit] for line, byte in zip(LINES, bytes_read, strict=True) for bit in line if not byte >> bit & 1
        )
        frames.append(frozenset(buttons))
    return frames


def _peek(retro, address, kind):
    return retro.data.memory.extract(address, kind)
