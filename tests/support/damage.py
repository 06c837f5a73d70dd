"""Damage to files, byte by byte or value by value, and processes killed before a step on the disk."""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# What parsers stumble over, for text and for numbers in text.
TOKENS = [
    b"nan", b"-inf", b"1e308", b"-1", b"0", b"", b"9" * 400, b"9" * 5000, b"1e400", b"4294967296", b"0x7f",
    b"null", b"true", b"[]", b"{}", b'""', b"[" * 5000, b'{"a":' * 3000, b"<a>" * 3000, b"<?x a=\"b\"/>",
    b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>", b"&b;", b"\xff\xfe", b"\x00", b"\xed\xa0\x80",
    b"\x1b[31m", b"\xe2\x80\xae", b"../../x", b"/dev/zero", b"/vsicurl/http://127.0.0.1/x", b"file:///etc/passwd",
    b"x" * 70_000, b"\r\n", b"'", b'"', b"=1+1", b"2019-13-45", b"0001-01-01", b"%s%n", b"\\ud800",
]  # fmt: skip
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_]{2,}")
# Bytes that numbers in a binary header are made extreme by.
EXTREMES = [b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01"]


def is_text(data: bytes) -> bool:
    """Return whether bytes look like text."""
    return b"\0" not in data[:2000]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return other bytes: one to five kinds of damage, chosen by ``rng``."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        kinds = _TEXT if is_text(data) and rng.random() < 0.7 else _BYTES
        data = rng.choice(kinds)(data, rng)
    return data


def _place(data: bytes, rng: random.Random) -> int:
    # Headers stand at the start, and at the end of some.
    end = len(data) if rng.random() < 0.5 else min(len(data), 600)
    return rng.randrange(end + 1)


def flip(data: bytes, rng: random.Random) -> bytes:
    """Flip some bits."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 32)) if out else 0):
        out[min(_place(data, rng), len(out) - 1)] ^= 1 << rng.randrange(8)
    return bytes(out)


def extreme(data: bytes, rng: random.Random) -> bytes:
    """Set one to eight bytes in a row to an extreme."""
    place, length = _place(data, rng), rng.choice((1, 2, 4, 8))
    return data[:place] + rng.choice(EXTREMES) * length + data[place + length :]


def cut(data: bytes, rng: random.Random) -> bytes:
    """Leave out the end."""
    return data[: rng.randrange(len(data) + 1)]


def drop(data: bytes, rng: random.Random) -> bytes:
    """Leave out a piece."""
    place = _place(data, rng)
    return data[:place] + data[place + rng.choice((1, 4, 50, 1000)) :]


def double(data: bytes, rng: random.Random) -> bytes:
    """Write a piece twice, or many times."""
    place, length = _place(data, rng), rng.choice((1, 8, 100, 2000))
    piece = data[place : place + length]
    return data[:place] + piece * rng.choice((2, 2, 3, 50)) + data[place + length :]


def move(data: bytes, rng: random.Random) -> bytes:
    """Write a piece from elsewhere over another."""
    place, other, length = _place(data, rng), _place(data, rng), rng.choice((2, 8, 64))
    return data[:place] + data[other : other + length] + data[place + length :]


def insert(data: bytes, rng: random.Random) -> bytes:
    """Put a token somewhere."""
    place = _place(data, rng)
    return data[:place] + rng.choice(TOKENS) + data[place:]


def number(data: bytes, rng: random.Random) -> bytes:
    """Replace a number of a text by a token."""
    return _replaced(NUMBER, data, rng)


def word(data: bytes, rng: random.Random) -> bytes:
    """Replace a word of a text by a token, or by another of its words."""
    return _replaced(WORD, data, rng)


def _replaced(pattern: re.Pattern[bytes], data: bytes, rng: random.Random) -> bytes:
    there = list(pattern.finditer(data))
    if not there:
        return insert(data, rng)
    one = rng.choice(there)
    new = rng.choice(TOKENS) if rng.random() < 0.7 else rng.choice(there)[0]
    return data[: one.start()] + new + data[one.end() :]


_BYTES = (flip, flip, extreme, extreme, cut, drop, double, move, insert)
_TEXT = (number, number, number, word, word, insert, cut, drop, double, flip)


# How many examples each parser is given; RSCC_FUZZ_EXAMPLES=20000 makes a long run of it.
EXAMPLES = int(os.environ.get("RSCC_FUZZ_EXAMPLES", "60"))
# The same cases in every run of the suite; other ones where more are asked for.
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="RSCC_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),  # the files of an example take the place of the last one's
)

_NUMBERS = [float("nan"), float("inf"), 1e308, -1, 0, 2**31, 2**63, 10**400]
_TEXTS = ["", "\ud800", "\x1b[31m", "\u202e", "../x"]
_ODD = st.sampled_from([*_NUMBERS, *_TEXTS]) | st.sampled_from([t.decode("latin-1") for t in TOKENS])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | _ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@contextmanager
def ours_only() -> Iterator[None]:
    """Let an error pass that says in one line what is wrong, and has an exit code; every other one fails."""
    try:
        yield
    except Exception as error:
        assert isinstance(getattr(error, "exit_code", None), int), repr(error)
        assert str(error) and "\n" not in str(error).replace("\\n", ""), str(error)


def damaged_bytes(sound: bytes) -> st.SearchStrategy[bytes]:
    """Return what gives the bytes of a sound file with damage."""
    return st.integers(0, 2**32).map(lambda seed: mutated(sound, random.Random(seed)))


@st.composite
def damaged_json(draw: Callable[[Any], Any], sound: Any) -> bytes:
    """Give a sound document with one to three members replaced, removed or renamed."""
    document = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, 3))):
        parent, key = _member(draw, document)
        if parent is None:
            continue
        kind = draw(st.sampled_from(("replace", "replace", "replace", "remove", "add")))
        if kind == "remove":
            del parent[key]
        elif kind == "add" and isinstance(parent, dict):
            parent[draw(st.text(max_size=8))] = draw(VALUES)
        else:
            parent[key] = draw(VALUES)
    return json.dumps(document).encode()


def _member(draw: Callable[[Any], Any], document: Any) -> tuple[Any, Any]:
    """Return where a member of a document stands, any one of all; (None, None) where there is none."""
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else list(range(len(one))) if isinstance(one, list) else []
        places += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    return draw(st.sampled_from(places)) if places else (None, None)


STEPS = ("rename", "replace", "fsync", "mkdir", "rmdir", "unlink", "link")


class Killed(BaseException):
    """As SIGKILL: no step on the disk is done after it, so what tidies up tries in vain."""


class Steps:
    """Count the calls of ``only`` that change the disk; before the one numbered ``last``, raise ``error``.

    An error is that of one call; after Killed every call of :data:`STEPS` raises it again.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        last: int | None = None,
        error: BaseException | None = None,
        only: Sequence[str] = STEPS,
    ) -> None:
        self.count, self.last, self.error, self.is_dead = 0, last, error, False
        for name in dict.fromkeys((*STEPS, *only)):
            patch.setattr(os, name, self._counted(getattr(os, name), counts=name in only))

    def stop(self) -> None:
        """Kill the process here."""
        self.is_dead, self.error = True, Killed()
        raise self.error

    def _counted(self, real: Callable, *, counts: bool) -> Callable:
        def call(*arguments, **options):
            self.count += counts
            is_last = counts and self.count == self.last
            self.is_dead |= is_last and isinstance(self.error, Killed)
            if is_last or self.is_dead:
                raise self.error
            return real(*arguments, **options)

        return call


def kill(last: int, action: Callable[[], object], only: Sequence[str] = STEPS) -> bool:
    """Kill ``action`` before its step ``last`` of ``only``; False where it has fewer."""
    with pytest.MonkeyPatch.context() as patch:
        Steps(patch, last, Killed(), only)
        try:
            action()
        except Killed:
            return True
    return False
