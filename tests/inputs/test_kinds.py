"""One test for every kind of input, and for combinations of them."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from buckets import KEY, SECRET, TOKEN, serving, settings
from judging import assert_only_the_change, full_change, run_command
from kind import ANY, Kind
from kinds_files import FILES
from kinds_pixels import PIXELS
from kinds_places import PLACES
from kinds_refused import REFUSED
from opening import REMOTE, named
from scenes import Drawing, write

KINDS: list[Kind] = [
    kind for section in (PLACES, PIXELS, FILES, REFUSED) for kinds in section.values() for kind in kinds
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kind(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    full = full_change(kind.before, kind.after)
    paths = [
        write(tmp_path, "before", kind.before, Drawing(kind.ground, after=False)),
        write(tmp_path, "after", kind.after, Drawing(kind.ground, True, full, kind.misplaced)),
    ]
    if kind.spoilt is not None:
        paths[1] = kind.spoilt(paths[1])
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path)) if REMOTE.keys() & kind.opened else None
        if server is not None:
            for name, value in settings(server).items():
                monkeypatch.setenv(name, value)
        words = [named(path, how, server) for path, how in zip(paths, kind.opened, strict=True)]
        out = tmp_path / "out"
        out.mkdir()
        run = run_command(capfd, *words, out, kind.options)
    said = json.dumps(run.report) + "".join(run.lines)
    assert not any(secret in said for secret in (TOKEN, KEY, SECRET))
    if kind.refused:
        assert run.code == kind.code, run.lines
        (line,) = run.lines
        assert line.startswith("rscc: error: ") and (kind.refused == ANY or f"{kind.refused}: " in line), line
        assert not list(out.iterdir())
        return
    assert_only_the_change(run, kind.ground)
    assert [line.partition(": ")[0] for line in run.warnings] == list(kind.warns)
