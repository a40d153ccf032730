"""Feed damaged and hostile files to every reader: each must accept them or raise `UserError` with one line.

    python tests/campaign/fuzz_readers.py --inputs 700000 --seed 0
    python tests/campaign/fuzz_readers.py --engine hypothesis --inputs 100000
    python tests/campaign/fuzz_readers.py --engine atheris --inputs 200000

`mutate` changes the structure and the bytes of valid files, `hypothesis` makes JSON and bytes of its own and puts them
at places of valid files, `atheris` (libFuzzer, `pip install atheris`) looks for bytes that reach new branches.

Prints a table: reader, inputs, refused, accepted, other exceptions, slowest in seconds of CPU time, growth of the peak
memory in MB. More than a second or a gigabyte for one input counts as an exception. Inputs that raise are kept in
--keep. `test_fuzz_readers.py` runs a few hundred of each.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from readers import FAST, Reader, readers

from masp.errors import UserError

BYTES = (b"NaN", b"Infinity", b"1e999", b"-1", b"9" * 5000, b"[" * 100_000, b"\xff\xfe", b"\0", b'"\\ud800"', b"true")
BYTES += (b"null", b"{}", b"\r", b"\n", b",", b'"', b"99999999999999999999", b"\x1b[31m", b"\xef\xbb\xbf", b"0.5")
VALUES = (None, True, False, -1, 0, 1, 10**12, 2**63, 10**400, 1e308, float("nan"), float("-inf"), 0.5, "", "\0")
VALUES += ("\ud800", "\x1b[2J", "../../etc/passwd", [], {}, [[]], [None], [1e400], "x" * 10_000, [0] * 1000)
MOST_SECONDS, MOST_MEGABYTES = 1.0, 1024.0
"""What reading one input may take."""


@dataclass
class Tally:
    """What happened to the inputs of one reader."""

    refused: int = 0
    accepted: int = 0
    others: int = 0
    slowest: float = 0.0
    grown: float = 0.0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        counts = [a + b for a, b in zip(astuple(self)[:3], astuple(other)[:3], strict=True)]
        return Tally(*counts, max(self.slowest, other.slowest), max(self.grown, other.grown))

    def line(self, name: str) -> str:
        """A row of the table."""
        figures = f"{self.refused + self.accepted:8} {self.refused:8} {self.accepted:8} {self.others:7}"
        return f"{name:16} {figures} {self.slowest:10.3f} {self.grown:9.0f}"


def mutated(reader: Reader, rng: random.Random) -> bytes:
    """A damaged or hostile input."""
    data = reader.data
    if rng.random() < 0.6:
        data = copy.deepcopy(data)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            data = _mutated_structure(data, rng)
    content = reader.encode(data)
    if data is reader.data or rng.random() < 0.2:
        for _ in range(rng.choice((1, 1, 2, 8))):
            content = _mutated_bytes(content, rng)
    return content


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every node of JSON values, as its container and its key."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, part in list(items):
            places.append((node, key))
            visit(part)

    visit(data)
    return places


def _mutated_structure(data: Any, rng: random.Random) -> Any:
    """`data` with one node replaced, removed or repeated."""
    places = _places(data)
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(VALUES))
    node, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.15:
        del node[key]
    elif kind < 0.25 and isinstance(node, list):
        node[key : key + 1] = [node[key]] * rng.choice((0, 2, 1000))
    elif kind < 0.35 and isinstance(node, dict):
        node[rng.choice(("", "x", "\ud800", "format", "frames", "macros", "__metadata__"))] = copy.deepcopy(
            rng.choice(VALUES)
        )
    elif kind < 0.4:
        node[key] = [node[key]]
    else:
        node[key] = copy.deepcopy(rng.choice(VALUES))
    return data


def _mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    at, kind = rng.randrange(len(content) + 1), rng.random()
    if kind < 0.3 and at < len(content):
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if kind < 0.45:
        return content[:at]
    if kind < 0.6:
        return content[:at] + content[at + rng.randrange(1, 40) :]
    if kind < 0.7:
        return content[:at] + content[max(0, at - 30) :]
    if kind < 0.75 and len(content) >= 8:
        return struct.pack("<Q", rng.choice((0, 7, 2**31, 2**62, 2**64 - 1))) + content[8:]
    return content[:at] + rng.choice(BYTES) + content[at + rng.choice((0, 1, 4)) :]


class LimitError(Exception):
    """Reading one input took too much time or memory."""


def try_input(reader: Reader, content: bytes, folder: Path, tally: Tally) -> BaseException | None:
    """Read one input; the exception, if it is not the clear one."""
    path = folder / reader.file
    path.write_bytes(content)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    wrong: BaseException | None = None
    try:
        reader.read(path)
        tally.accepted += 1
    except UserError as error:
        tally.refused += 1
        if "\n" in str(error) or len(str(error)) > 1000:
            wrong = error
    except BaseException as error:  # also panics of libraries in Rust
        if isinstance(error, KeyboardInterrupt):
            raise
        wrong = error
    seconds = time.process_time() - started
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    tally.slowest, tally.grown = max(tally.slowest, seconds), tally.grown + megabytes
    if wrong is None and (seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES):
        wrong = LimitError(f"{seconds:.2f} s, {megabytes:.0f} MB")
    tally.others += wrong is not None
    return wrong


def show(reader: Reader, content: bytes, error: BaseException, keep: Path | None) -> None:
    """Print an exception that is not the clear one, and keep the input that led to it."""
    text = "".join(traceback.format_exception(error, limit=-3))
    print(f"{reader.name}: {content[:300]!r}\n{text[:1500]}", file=sys.stderr)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{reader.name}-{abs(hash(content)):x}").write_bytes(content)


def fuzz(reader: Reader, inputs: int, seed: int, keep: Path | None = None, seconds: float = 1e9) -> Tally:
    """Try so many mutated inputs, or as many as there is time for."""
    rng, tally = random.Random(f"{reader.name} {seed}"), Tally()
    end = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        for _ in range(inputs):
            content = mutated(reader, rng)
            error = try_input(reader, content, Path(folder), tally)
            if error is not None and tally.others <= 3:
                show(reader, content, error, keep)
            if time.perf_counter() > end:
                break
    return tally


def fuzz_with_hypothesis(reader: Reader, inputs: int, seed: int, keep: Path | None = None) -> Tally:
    """Values and bytes that hypothesis makes, alone and at a place of a valid file."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import seed as with_seed
    from hypothesis import strategies as st

    tally = Tally()
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    values = st.recursive(scalars, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=20)
    kinds = st.sampled_from(("value", "value inside", "bytes", "bytes inside"))

    with tempfile.TemporaryDirectory(dir=FAST) as folder:

        @with_seed(seed)
        @settings(max_examples=inputs, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(value=values, raw=st.binary(), place=st.integers(0, 10_000), kind=kinds)
        def attempt(value: Any, raw: bytes, place: int, kind: str) -> None:
            content = _made(reader, raw if kind.startswith("bytes") else value, place, kind.endswith("inside"))
            error = try_input(reader, content, Path(folder), tally)
            if error is not None and tally.others <= 3:
                show(reader, content, error, keep)

        attempt()
    return tally


def _made(reader: Reader, part: Any, place: int, inside: bool) -> bytes:
    """An input from bytes or JSON values: these alone, or at a place of the valid file."""
    if isinstance(part, bytes):
        valid = reader.encode(reader.data)
        at = place % (len(valid) + 1)
        return valid[:at] + part + valid[at + len(part) :] if inside else part
    data = copy.deepcopy(reader.data)
    if inside and (places := _places(data)):
        node, key = places[place % len(places)]
        node[key] = part
    try:
        return reader.encode(data if inside else part)
    except UnicodeError:  # half of a surrogate pair in a format that has no escapes for it
        return b""


ATHERIS = """
import sys, atheris
sys.path.insert(0, sys.argv[1])
with atheris.instrument_imports(include=["masp"]):
    import fuzz_readers
fuzz_readers.inside_atheris(*sys.argv[2:5], sys.argv[5:])
"""


def fuzz_with_atheris(reader: Reader, inputs: int, seed: int, keep: Path | None = None) -> Tally:
    """Bytes that libFuzzer finds, beginning with a valid file; in another process, because libFuzzer ends it."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        (corpus / "valid").write_bytes(reader.encode(reader.data))
        command = [sys.executable, "-c", ATHERIS, str(Path(__file__).parent), reader.name, f"{folder}/tally.json"]
        command += [str(keep.absolute()) if keep is not None else ""]
        flags = [str(corpus), f"-runs={inputs}", f"-seed={seed + 1}", "-max_len=20000", "-rss_limit_mb=4096"]
        done = subprocess.run([*command, *flags], stderr=subprocess.PIPE, text=True, cwd=folder)
        try:
            tally = Tally(**json.loads((Path(folder) / "tally.json").read_text()))
        except (OSError, ValueError):
            tally = Tally(others=1)
        if done.returncode or tally.others:
            tally.others = max(tally.others, 1)
            print(done.stderr[-3000:], file=sys.stderr)
        return tally


def inside_atheris(name: str, file: str, keep: str, flags: list[str]) -> None:
    """Let libFuzzer call a reader; never returns. The tally is kept in `file`, because libFuzzer just exits."""
    import atheris

    (reader,) = [reader for reader in readers() if reader.name == name]
    tally, scratch = Tally(), Path(tempfile.mkdtemp(dir=Path(file).parent))

    def one(content: bytes) -> None:
        error = try_input(reader, content, scratch, tally)
        if error is not None and tally.others <= 3:
            show(reader, content, error, Path(keep) if keep else None)
        total = tally.accepted + tally.refused + tally.others
        if total % 200 == 0 or error is not None:
            Path(file).write_text(json.dumps(tally.__dict__))

    atheris.Setup([sys.argv[0], *flags], one)
    atheris.Fuzz()


ENGINES = {"mutate": fuzz, "hypothesis": fuzz_with_hypothesis, "atheris": fuzz_with_atheris}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="over all readers")
    parser.add_argument("--engine", choices=ENGINES, default="mutate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="name of one reader")
    parser.add_argument("--keep", type=Path, help="folder for inputs that raise something else")
    args = parser.parse_args()
    chosen = [reader for reader in readers() if args.only in ("", reader.name)]
    print(f"{'reader':16} {'inputs':>8} {'refused':>8} {'accepted':>8} {'others':>7} {'slowest s':>10} {'grown MB':>9}")
    total = Tally()
    for reader in chosen:
        tally = ENGINES[args.engine](reader, args.inputs // len(chosen), args.seed, args.keep)
        print(tally.line(reader.name), flush=True)
        total = total.plus(tally)
    print(total.line("all"), flush=True)
    return 1 if total.others else 0


if __name__ == "__main__":
    sys.exit(main())
