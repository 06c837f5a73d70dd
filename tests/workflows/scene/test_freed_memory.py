"""Freed memory stays in the process where nobody asked for a cap."""

from __future__ import annotations

import os

import pytest
from captioned import captioned
from scene_pairs import make_pair

from workflows.scene import carrier

# Prints whether memory is kept, and by how many MB a process is larger after 256 MB came and went.
CODE = """
import json, numpy, threading
from rscc.freed_memory import keep_freed_memory
from workflows.scene.memory import resident_bytes

kept = keep_freed_memory() if {asked} else False
before = resident_bytes()
{use}
print(json.dumps([kept, (resident_bytes() - before) / 1e6]))
"""

USES = ("numpy.ones(2**25)", "(t := threading.Thread(target=numpy.ones, args=(2**25,))).start(); t.join()")
"""What takes 256 MB and gives them back: the leading thread, or another."""


@pytest.fixture(autouse=True)
def no_wishes(monkeypatch):
    """Take away what another test may have left: Dask sets a variable where it starts workers."""
    for name in list(os.environ):
        if name.startswith("MALLOC_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("use", USES)
def test_what_was_freed_stays_if_asked_for(run_python, use):
    kept, size = run_python(CODE.format(asked=True, use=use))
    assert kept and size > 200
    kept, size = run_python(CODE.format(asked=False, use=use))
    assert not kept and size < 50


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_who_has_set_the_allocator_has_decided(run_python, monkeypatch, name):
    monkeypatch.setenv(name, "131072" if name.startswith("MALLOC") else "glibc.malloc.trim_threshold=131072")
    assert run_python(CODE.format(asked=True, use=USES[0]))[0] is False


@pytest.mark.parametrize(("memory", "times"), [(None, 1), (4 * 10**9, 0)])
def test_a_search_with_a_cap_returns_its_memory(tmp_path, monkeypatch, memory, times):
    calls = []
    monkeypatch.setattr(carrier, "keep_freed_memory", lambda: calls.append(1))
    captioned(make_pair(tmp_path, []), memory=memory)
    assert len(calls) == times
