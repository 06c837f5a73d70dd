"""``rscc.caption``: scenes as paths, datasets and arrays; keywords as the command's options."""

from __future__ import annotations

import inspect
from datetime import date

import numpy as np
import pytest
import rasterio
from captioners import BrightnessCaptioner
from rasterio.io import MemoryFile
from scene_pairs import make_pair

import rscc
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions

RENAMED = {"bounds": "bbox", "allow_hosts": "allow_host"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("pair"), [(20, 20, 30, 30, 240)])


@pytest.fixture(scope="module")
def report(pair):
    return rscc.caption(pair.before, pair.after, captioner=BrightnessCaptioner())


def data_of(path):
    with rasterio.open(path) as file:
        return file.read(), file.transform, file.crs


def outlines(report):
    return [change.geometry for change in report]


def test_every_option_of_a_run_is_a_typed_keyword_of_the_same_name():
    parameters = inspect.signature(rscc.caption).parameters
    fields = {RENAMED.get(name, name) for name in SceneOptions.names()}
    own = {"before", "after", "model", "detector", "device", "captioner", "progress", "transform", "crs"}
    assert set(parameters) == fields | own
    for name in SceneOptions.names():
        default = parameters[RENAMED.get(name, name)].default
        assert default == getattr(SceneOptions(), name), name
    assert all(each.annotation is not inspect.Parameter.empty for each in parameters.values())


def test_classes_are_read_as_the_command_reads_them_and_bands_come_first(pair):
    for only in ("houses,road", ["building", "road"]):
        found = rscc.caption(pair.before, pair.after, only=only, captioner=BrightnessCaptioner())
        assert found.run["settings"]["only"] == ["building", "road"]
    with pytest.raises(OptionInvalid, match="castle"):
        rscc.caption(pair.before, pair.after, only="castle")
    array, transform, crs = data_of(pair.before)
    last = array.transpose(1, 2, 0)
    with pytest.raises(TypeError, match="transpose"):
        rscc.caption(last, last, transform=transform, crs=crs)


@pytest.mark.slow
def test_arrays_with_their_georeferencing_give_the_report_of_the_files(pair, report):
    before, transform, crs = data_of(pair.before)
    after = data_of(pair.after)[0]
    given = rscc.caption(before, after, transform=transform, crs=crs, captioner=BrightnessCaptioner())
    assert outlines(given) == outlines(report)
    assert given._repr_html_().count("<img") == 2, "its scenes can still be read"
    with pytest.warns(UserWarning, match="^(before|after): its only band"):
        grey = rscc.caption(
            before[0], after[0], transform=list(transform)[:6], crs=32633, captioner=BrightnessCaptioner()
        )
    assert len(grey) == 1


@pytest.mark.parametrize("bands", [slice(None), 1], ids=["in all bands", "in one band"])
def test_masked_pixels_of_an_array_are_nodata(pair, bands):
    before, transform, crs = data_of(pair.before)
    after = np.ma.masked_array(data_of(pair.after)[0])
    after[bands, 15:60, 15:60] = np.ma.masked
    given = rscc.caption(before, after, transform=transform, crs=crs, captioner=BrightnessCaptioner())
    assert len(given) == 0 and given, "a report without changes is still a report"


def test_open_datasets_on_disk_and_in_memory(pair, report):
    with (
        rasterio.open(pair.before) as before,
        MemoryFile(pair.after.read_bytes()) as memory,
        memory.open() as after,
    ):
        given = rscc.caption(before, after, captioner=BrightnessCaptioner())
    assert outlines(given) == outlines(report)
    with pytest.raises(TypeError, match="before"):
        rscc.caption(before, pair.after, captioner=BrightnessCaptioner())


@pytest.mark.slow
def test_data_arrays_need_a_crs(pair, report):
    rioxarray = pytest.importorskip("rioxarray")
    before, after = (rioxarray.open_rasterio(path) for path in (pair.before, pair.after))
    assert outlines(rscc.caption(before, after, captioner=BrightnessCaptioner())) == outlines(report)
    without = after.drop_vars("spatial_ref")
    with pytest.raises(TypeError, match="after"):
        rscc.caption(before, without, captioner=BrightnessCaptioner())
    given = rscc.caption(before, without, crs="EPSG:32633", captioner=BrightnessCaptioner())
    assert outlines(given) == outlines(report)


@pytest.mark.parametrize(
    "source", [None, 7, [[1, 2], [3, 4]], b"scene.tif", np.zeros((2, 2, 2, 2)), np.zeros((0, 4))]
)
def test_anything_else_is_a_type_error_that_names_the_date(pair, source):
    with pytest.raises(TypeError, match="after"):
        rscc.caption(
            pair.before, source, transform=[1, 0, 0, 0, -1, 0], crs=32633, captioner=BrightnessCaptioner()
        )
    for after, georeferencing in ((np.zeros((4, 4)), {}), (pair.after, {"crs": 32633})):
        with pytest.raises(TypeError):
            rscc.caption(pair.before, after, captioner=BrightnessCaptioner(), **georeferencing)


def test_dates_may_be_dates(pair):
    given = rscc.caption(
        pair.before,
        pair.after,
        date_before=date(2019, 5, 1),
        date_after="2020-06",
        captioner=BrightnessCaptioner(),
    )
    assert (given[0].date_before, given[0].date_after) == ("2019-05-01", "2020-06")


def test_a_report_is_a_sequence_with_a_summary_and_a_geo_interface(report):
    assert list(report) == report.changes == [report[0]] and len(report) == 1
    assert str(report.summary) == report.summary.text == report.run["summary"]["text"]
    assert report.summary.total.changes == 1
    assert report.__geo_interface__["features"][0]["id"] == 1


@pytest.mark.slow
def test_a_map_in_a_notebook_has_both_dates(report):
    pytest.importorskip("folium")
    text = report.explore().get_root().render()
    assert text.count("data:image/png") == 2 and report[0].caption in text


@pytest.mark.parametrize(
    ("gsd", "model"), [(0.5, "rscc-base"), (2.0, "rscc-base"), (5.0, "rscc-medium"), (10.0, "rscc-medium")]
)
def test_the_model_follows_the_pixel_size(rscc_command, tmp_path, gsd, model):
    scenes = make_pair(tmp_path, [(20, 20, 30, 30, 240)], gsd=gsd)
    captioner = BrightnessCaptioner(gsd=gsd, gsd_range=(0.2, 60.0))
    code, _, _ = rscc_command(
        "caption", scenes.before, scenes.after, "-o", tmp_path / "r.geojson", captioner=captioner
    )
    assert code == 0
    assert rscc_command.chosen == [(model, "auto")]
