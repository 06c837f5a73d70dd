"""``rscc.monitor``: its keywords are the options of the command."""

from __future__ import annotations

import inspect
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
from painted_series import write_series

import rscc
from workflows.errors import FolderOccupied
from workflows.monitor import monitor as monitor_module
from workflows.monitor.options import MonitorOptions


def test_every_option_is_a_typed_keyword_and_errors_name_them(tmp_path):
    parameters = inspect.signature(rscc.monitor).parameters
    renamed = {"bounds": "bbox", "allow_hosts": "allow_host", "assets": "asset", "collections": "collection"}
    fields = {renamed.get(name, name): name for name in MonitorOptions.names() if name != "pair"}
    own = {"scenes", "out", "device", "captioner", "progress", "feed", "notify"}
    assert set(parameters) == {*fields, *own}
    for name, field in fields.items():
        assert parameters[name].default == getattr(MonitorOptions(), field), name
    with pytest.raises(TypeError, match="confrim"):
        rscc.monitor(tmp_path, tmp_path / "out", confrim=3)
    write_series(tmp_path / "town")
    with pytest.raises(FolderOccupied, match=r"empty folder$"):
        rscc.monitor(tmp_path / "town", tmp_path)


def test_every_keyword_reaches_its_option(tmp_path, monkeypatch):
    given = {
        "confirm": 3, "model": "rscc-small", "context": ["a.gpkg:b"], "bands": (3, 2, 1), "force": True,
        "band_names": ["red"], "scale": (0.0, 9.0), "bbox": (0, 0, 1, 1), "first_date": date(2019, 1, 2),
        "last_date": "2020", "max_cloud": 7.0, "min_overlap": 8.0, "match": "(a)", "glob": "*.tif",
        "asset": "visual", "collection": ["s2", "s1"], "offline": True, "allow_host": "maps.example",
    }  # fmt: skip
    called, done = [], SimpleNamespace(warnings=["a.tif: no date"], failed={"town": "b.tif: damaged"})
    monkeypatch.setattr(
        monitor_module,
        "run_monitor",
        lambda *values, **rest: called.append((values, rest)) or SimpleNamespace(done=done),
    )
    with pytest.warns(UserWarning) as caught:
        rscc.monitor(["a", Path("b")], "out", feed="feed.xml", notify="log.jsonl", **given)
    assert [str(one.message) for one in caught] == ["a.tif: no date", "b.tif: damaged"]
    ((sources, out, options, _, progress), rest) = called[0]
    assert (sources, out, progress) == (["a", "b"], "out", None)
    assert rest == {"feed": Path("feed.xml"), "notify": "log.jsonl"}
    assert options == MonitorOptions(
        confirm=3, model="rscc-small", context=("a.gpkg:b",), bands=(3, 2, 1), force=True,
        band_names=("red",), scale=(0.0, 9.0), bounds=(0, 0, 1, 1), first_date="2019-01-02",
        last_date="2020", max_cloud=7.0, min_overlap=8.0, match="(a)", glob="*.tif", assets=("visual",),
        collections=("s2", "s1"), offline=True, allow_hosts=("maps.example",),
    )  # fmt: skip
    assert (options.reading.scale, options.reading.force, options.reading.band_names) == (
        (0, 9),
        True,
        ("red",),
    )
