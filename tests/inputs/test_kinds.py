"""One test for every row of the table in docs/inputs.md, and one that the table is that of the rows."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from judging import assert_only_the_change, full_change, run_command
from kind import fits
from make_table import KINDS, page
from opening import REMOTE, named
from scenes import Drawing, write
from servers import KEY, SECRET, TOKEN, serving, settings


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
        assert len(run.lines) == 1 and fits(f"rscc: error: {kind.refused}", run.lines[0]), run.lines
        assert not list(out.iterdir())
        return
    assert_only_the_change(run, kind.ground)
    found = run.warnings
    assert len(found) == len(kind.warns) and all(map(fits, kind.warns, found)), found


def test_the_table_has_each_row_once_and_the_page_is_that_of_the_rows(repository):
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names) >= 45
    assert (repository / "docs" / "inputs.md").read_text(encoding="utf-8") == page()
