"""Damage to the bytes of a file: what a bad disk, a bad program or somebody bad would do to it."""

from __future__ import annotations

import random
import re

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
