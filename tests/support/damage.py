"""What hypothesis damages sound files by, and the one thing that every parser of ours must keep to."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from mutations import TOKENS, mutated

# How many examples each parser is given; RSCC_FUZZ_EXAMPLES=20000 makes a long run of it.
EXAMPLES = int(os.environ.get("RSCC_FUZZ_EXAMPLES", "120"))
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
