"""Pairs from folders and tables: sites, dates, clouds, and what is said of scenes that are left out."""

import os

import pytest
from rasters import north_up
from servers import ids, lines, serving, write_scenes

from tiling import SceneUnreachable, describe
from workflows.errors import CatalogInvalid, CatalogUnreachable, OptionInvalid, WorkflowError
from workflows.pairs import headers
from workflows.pairs.catalog import Skipped
from workflows.pairs.folders import UNMATCHED, folder_catalog
from workflows.pairs.options import CatalogOptions
from workflows.pairs.sources import read_catalog, table_catalog, two_folder_catalog
from workflows.pairs.table import write_pairs


def folder(root, **options):
    return folder_catalog(root, CatalogOptions(**options))


def test_sub_folders_are_sites(tmp_path):
    write_scenes(
        tmp_path, "b/x_20190801.tif", "b/x_20200801.tif", "a/2015.tif", "a/deep/2017.tif", "a/deep/2016.tif"
    )
    steps = []
    catalog = folder_catalog(tmp_path, CatalogOptions(), lambda *values: steps.append(values))
    assert steps == [("scenes", number, 5) for number in range(1, 6)]
    assert ids(catalog) == ["a_2015_2016", "a_2016_2017", "b_2019-08-01_2020-08-01"]
    first = catalog.rows[0]
    assert (first.before, first.after) == (str(tmp_path / "a/2015.tif"), str(tmp_path / "a/deep/2016.tif"))
    assert (first.site, first.date_before, first.date_after) == ("a", "2015", "2016")
    assert first.footprint.area > 0
    assert (catalog.scenes, catalog.skipped, catalog.source) == (5, [], f"folder {tmp_path}")


def test_a_folder_may_be_a_site_itself_and_those_named_by_date_are_none(tmp_path):
    root = write_scenes(
        tmp_path / "town", "2019-05-01/tile.tif", "2020-05-01/tile.tif", "2021/tile.tif", "S2_20220501/t.tif"
    )
    assert ids(folder(root)) == ["town_2019-05-01_2020-05-01", "town_2020-05-01_2021", "town_2021_2022-05-01"]
    assert {row.site for row in folder(str(root) + os.sep).rows} == {"town"}


def test_a_pattern_takes_the_site_from_the_names(tmp_path):
    write_scenes(
        tmp_path, "north_2015.tif", "north_2016.tif", "south_2015.tif", "south_2016.tif", "other.tif"
    )
    catalog = folder(tmp_path, match=r"(north|south)_")
    assert ids(catalog) == ["north_2015_2016", "south_2015_2016"]
    assert catalog.left_out() == {UNMATCHED: 1}


def test_scenes_named_before_and_after_need_no_date(tmp_path):
    write_scenes(tmp_path, "storm/before.tif", "storm/after.tif", "storm/label.tif", "half/before.tif")
    write_scenes(tmp_path, "far/before.tif")
    write_scenes(tmp_path, "far/after.tif", transform=north_up(600_000))
    catalog = folder(tmp_path)
    assert ids(catalog) == ["storm_before_after"]
    assert catalog.rows[0].before.endswith("before.tif") and catalog.rows[0].footprint is not None
    assert catalog.left_out() == {"without a date": 4}
    assert "storm/label.tif: " in " ".join(lines(catalog))


def test_a_tag_is_believed_before_a_file_beside_and_that_before_a_name(tmp_path):
    write_scenes(tmp_path, "s/a_20100101.tif", tags={"ACQUISITIONDATETIME": "2015:02:03 10:00:00"})
    write_scenes(tmp_path, "s/b_20100102.tif")
    (tmp_path / "s/b_20100102.json").write_text('{"properties": {"datetime": "2016-07-08T09:10:11Z"}}')
    write_scenes(tmp_path, "s/c_20100103.tif", tags={"DATE_ACQUIRED": "2017-09-10"})
    (tmp_path / "s/c_20100103.json").write_text('{"properties": {"datetime": "2018-07-08T09:10:11Z"}}')
    assert ids(folder(tmp_path)) == ["s_2015-02-03_2016-07-08", "s_2016-07-08_2017-09-10"]


SIDECARS = {
    "landsat": (
        "LC08_1_MTL.txt",
        '  GROUP = X\n    DATE_ACQUIRED = 2015-05-06\n    CLOUD_COVER = 12.34\n    CLOUD_COVER_LAND = 99\n',
        "LC08_1_visual.tif",
    ),
    "landsat xml": ("L_MTL.xml", "<DATE_ACQUIRED>2015-05-06</A><CLOUD_COVER>12.34</A>", "L_T1.tif"),
    "landsat json": ("L_MTL.json", '{"A": {"DATE_ACQUIRED": "2015-05-06", "CLOUD_COVER": "12.34"}}', "L.tif"),
    "sentinel": (
        "MTD_MSIL2A.xml",
        "<PRODUCT_START_TIME>2015-05-06T10:00:31.024Z</PRODUCT_START_TIME>"
        "<Cloud_Coverage_Assessment>12.34</Cloud_Coverage_Assessment>",
        "TCI.tif",
    ),
    "stac": (
        "tile.json",
        '{"properties": {"created": "2022-01-01", "start_datetime": "2001-01-01T00:00:00Z", "datetime": '
        '"2015-05-06T10:00:00Z", "eo:cloud_cover": 12.34}}',
        "tile.tif",
    ),
    "planet": (
        "p_metadata.json",
        '{"acquired":"2015-05-06T01:02:03Z","cloud_cover":0.1,"cloud_percent":12.34}',
        "p.tif",
    ),
    "whole name": ("t.tif.xml", "<acquired>20150506T000000</A><CLOUD_COVER>12.34</A>", "t.tif"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SIDECARS)
def test_files_of_providers_say_date_and_clouds(tmp_path, kind):
    name, text, scene = SIDECARS[kind]
    write_scenes(tmp_path, f"s/{scene}", "s/sub/x_20200101.tif")
    (tmp_path / "s" / name).write_text(text)
    (row,) = folder(tmp_path).rows
    assert (row.date_before, row.date_after) == ("2015-05-06", "2020-01-01")
    assert (row.cloud_before, row.cloud_after) == (12.34, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tile_10_2.json", '{"datetime": "2015-05-06"}'),
        ("tile_1_2_MTL.txt", "DATE_ACQUIRED = 2015-05-06"),
        ("tile.json", '{"datetime": "2015-05-06"}'),
        ("tile_1.json", '{"datetime": null, "eo:cloud_cover": -1}'),
        ("tile_1.json", "[" * 3000),
        ("tile_1.txt", "updated_datetime: 2015-05-06"),
    ],
)
def test_other_files_say_nothing_of_a_scene(tmp_path, name, text):
    write_scenes(tmp_path, "s/tile_1.tif")
    (tmp_path / "s" / name).write_text(text)
    catalog = folder(tmp_path)
    assert catalog.rows == [] and catalog.left_out() == {"without a date": 1}


def test_what_cannot_be_read_is_named_and_left_out(tmp_path):
    write_scenes(tmp_path, "s/2015.tif", "s/2016.tif")
    write_scenes(tmp_path, "s/2017.tif", crs=None)
    (tmp_path / "s/2018.tif").write_bytes(b"II*\0 but no more")
    write_scenes(tmp_path, "s/2019.tif", transform=north_up(600_000))
    catalog = folder(tmp_path)
    assert ids(catalog) == ["s_2015_2016"] and catalog.scenes == 5
    assert catalog.left_out() == {"unreadable": 2, "without another date": 1}
    first, second, third = lines(catalog)
    assert str(tmp_path / "s/2017.tif") in first and str(tmp_path / "s/2018.tif") in second
    assert third.startswith("s/2019.tif: ")


def test_two_folders_are_paired_by_name(tmp_path):
    write_scenes(
        tmp_path / "old", "n/t1.tif", "n/t2.tif", "lone.tif", "t.v1.tif", tags={"DATE_ACQUIRED": "2015-01-01"}
    )
    write_scenes(tmp_path / "new", "n/t1.tif", "t.v1.tif", "n/t3.tif", "t.v2.tif")
    (tmp_path / "new/n/t2.png").write_bytes(b"no raster")
    catalog = two_folder_catalog(tmp_path / "old", tmp_path / "new", CatalogOptions())
    assert ids(catalog) == ["n_t1", "t.v1"]
    row = catalog.rows[0]
    assert (row.before, row.after) == (str(tmp_path / "old/n/t1.tif"), str(tmp_path / "new/n/t1.tif"))
    assert (row.site, row.date_before, row.date_after) == ("n", "2015-01-01", None)
    assert catalog.left_out() == {"without a partner in the other folder": 3, "unreadable": 1}
    first, second = catalog.warnings
    assert str(tmp_path / "old") in first and "lone" in first
    assert str(tmp_path / "new") in second and "n/t3, t.v2" in second


def test_a_folder_without_rasters_is_refused_and_one_that_is_both(tmp_path):
    with pytest.raises(CatalogInvalid):
        folder(tmp_path)
    write_scenes(tmp_path, "2015.tif")
    with pytest.raises(CatalogInvalid):
        folder(tmp_path, glob="*_x.tif")
    with pytest.raises(CatalogInvalid):
        two_folder_catalog(tmp_path, str(tmp_path) + "/.", CatalogOptions())


def test_a_table_is_checked_and_filled_in(tmp_path):
    write_scenes(tmp_path, "2015.tif", "2019.tif", "x.tif")
    write_scenes(tmp_path, "far_2020.tif", transform=north_up(600_000))
    table = tmp_path / "t.csv"
    table.write_text(
        "pair,before,after,date_after,note\n"
        "p,2015.tif,2019.tif,,good\nq,2019.tif,2015.tif,,\nr,x.tif,2015.tif,2010-05,\n"
        "far,2015.tif,far_2020.tif,,\ngone,2015.tif,absent.tif,,\ngone2,absent.tif,2019.tif,,\n"
    )
    catalog = table_catalog(table)
    assert ids(catalog) == ["p", "q", "r"]
    dates = [(row.date_before, row.date_after) for row in catalog.rows]
    assert dates == [("2015", "2019"), ("2019", "2015"), (None, "2010-05")]
    assert all(row.footprint is not None for row in catalog.rows)
    assert (catalog.scenes, catalog.left_out()) == (5, {"unreadable": 1, "without common ground": 1})
    assert "note" in catalog.warnings[0] and " q" in catalog.warnings[1]
    write_pairs(catalog.rows, tmp_path / "again.csv")
    assert table_catalog(tmp_path / "again.csv").rows == catalog.rows


def test_no_clouds_in_a_table_come_before_those_of_a_scene(tmp_path):
    write_scenes(tmp_path, "2015.tif", "2019.tif", tags={"CLOUD_COVER": "40"})
    (tmp_path / "t.csv").write_text("before,after,cloud_before\n2015.tif,2019.tif,0\n")
    (row,) = table_catalog(tmp_path / "t.csv").rows
    assert (row.cloud_before, row.cloud_after) == (0, 40)


@pytest.mark.slow
def test_a_server_that_is_down_ends_the_check_of_a_table(tmp_path, monkeypatch):
    monkeypatch.setenv("GDAL_HTTP_MAX_RETRY", "0")
    table = tmp_path / "t.csv"
    with serving() as server:
        names = [f"/{n}.tif" for n in range(40)]
        server.statuses.update(dict.fromkeys(names, 503))
        rows = [f"{server.address}{name}?sig=hush,/x.tif\n" for name in names]
        table.write_text("before,after\n" + "".join(rows))
        with pytest.raises(CatalogUnreachable) as caught:
            table_catalog(table, CatalogOptions(allow_hosts=("127.0.0.1",)))
        assert len({path for _, path in server.asked}) < 40
    assert "hush" not in str(caught.value) and caught.value.exit_code == 1


def test_scenes_that_are_unreachable_now_and_then_are_left_out(tmp_path, monkeypatch):
    """A server that answers in between is not down, however many of its scenes are missing in all."""
    files = write_scenes(tmp_path, "2015.tif", "2016.tif")

    def described(location, access):
        if "away" in location:
            raise SceneUnreachable(f"{location}: away")
        return describe(location, access)

    monkeypatch.setattr(headers, "describe", described)
    away = [f"away_{number}.tif" for number in range(headers.MAX_UNREACHABLE - 1)]
    there = str(files / "2015.tif")
    found = list(headers.read_headers([*away, there, *away]))
    assert [isinstance(one, Skipped) for one in found] == [True] * len(away) + [False] + [True] * len(away)
    with pytest.raises(CatalogUnreachable):
        list(headers.read_headers([*away, "away.tif", there]))


@pytest.mark.parametrize(
    ("sources", "named"),
    [
        (["absent"], "absent"),
        (["a", "b", "a"], "a"),
        (["a", "t.csv"], "t.csv"),
        (["a/2015.tif"], "a/2015.tif"),
        (["s3://u:hush@b/c.json"], "s3://b/c.json"),
        (["http:/u:hush@h/t.csv"], "http:/h/t.csv"),
        (["/vsis3/b/c.json?hush"], "/vsis3/b/c.json"),
        (["absent.csv"], "absent.csv"),
    ],
)
def test_other_sources_are_refused(tmp_path, monkeypatch, sources, named):
    monkeypatch.chdir(tmp_path)
    write_scenes(tmp_path, "a/2015.tif", "b/2016.tif")
    (tmp_path / "t.csv").write_text("before,after\nx,y\n")
    with pytest.raises(WorkflowError) as caught:
        read_catalog(sources)
    assert str(caught.value).startswith(f"{named}: ") and caught.value.exit_code == 2
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("sources", "options", "flag"),
    [
        (["a"], {"collections": ("x",)}, "--collection"),
        (["a"], {"bounds": (0, 0, 1, 1)}, "--bbox"),
        (["t.csv"], {"pair": "all"}, "--pair"),
        (["a", "b"], {"first_date": "2015"}, "--from"),
        (["a", "b"], {"min_overlap": 5}, "--min-overlap"),
    ],
)
def test_options_without_effect_are_refused(tmp_path, monkeypatch, sources, options, flag):
    monkeypatch.chdir(tmp_path)
    write_scenes(tmp_path, "a/2015.tif", "b/2016.tif")
    with pytest.raises(OptionInvalid, match=flag):
        read_catalog(sources, CatalogOptions(**options))


@pytest.mark.parametrize(
    ("sources", "options"),
    [
        (["t.csv"], {"allow_hosts": ("a.example",)}),
        (["a", "b"], {"match": "(20)", "glob": "2*"}),
        (["."], {"pair": "all", "max_cloud": 5, "first_date": "2014", "last_date": "2017", "min_overlap": 5}),
        (["."], {"match": "(20)", "glob": "2*"}),
    ],
)
def test_options_with_an_effect_are_taken(tmp_path, monkeypatch, sources, options):
    monkeypatch.chdir(tmp_path)
    write_scenes(tmp_path, "a/2015.tif", "b/2016.tif")
    (tmp_path / "t.csv").write_text("before,after\na/2015.tif,b/2016.tif\n")
    read_catalog(sources, CatalogOptions(**options, offline=True))


@pytest.mark.parametrize("pattern", [r"((a|aa)+)$!", r"(?:(a|a)+)c$"])
def test_a_pattern_that_would_take_for_ever_is_refused(tmp_path, monkeypatch, pattern):
    monkeypatch.setattr("workflows.pairs.folders.MATCH_SECONDS", 0.1)
    for one in ("one", "other"):
        write_scenes(tmp_path / one, f"{'a' * 80}_2019.tif", f"{'a' * 80}_2020.tif")
    options = CatalogOptions(match=pattern)
    for ask in (
        lambda: folder_catalog(tmp_path / "one", options),
        lambda: two_folder_catalog(tmp_path / "one", tmp_path / "other", options),
    ):
        with pytest.raises(OptionInvalid):
            ask()
