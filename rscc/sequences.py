"""Batches and samples of sequences."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size``; the last may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def evenly(items: Sequence[T], most: int) -> list[T]:
    """Return all items, or ``most`` of n evenly spaced: those at floor(i * n / most), i from 0."""
    count = min(most, len(items))
    return [items[number * len(items) // count] for number in range(count)]
