"""The table of pairs: what is read from it, what is refused at which line, and round trips."""

import datetime
import json

import geopandas
import pyarrow
import pyarrow.parquet
import pytest
from shapely.geometry import MultiPolygon, Point, box

from workflows.errors import PairTableInvalid
from workflows.pairs.rows import PairRow
from workflows.pairs.table import layer_path, read_pairs, write_pairs


def table(folder, text, name="pairs.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(path):
    with pytest.raises(PairTableInvalid) as caught:
        read_pairs(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


def example(folder):
    clouds = {"cloud_before": 12.5, "cloud_after": 0.0, "footprint": box(8, 47, 8.25, 47.5)}
    cut = MultiPolygon([box(179, 0, 180, 1), box(-180, 0, -179, 1)])
    return [
        PairRow("a_1", str(folder / "in" / "x 1.tif"), str(folder / "in" / "y;,1.tif"), "2019", "2020-08-31"),
        PairRow(
            "B-2",
            "https://example.org/x.tif?sig=a,b",
            "/vsicurl/https://example.org/y.tif",
            site="Zürich",
            **clouds,
        ),
        PairRow("c", "/else/x.tif", "/else/y.tif", changes=str(folder / "a.gpkg|layername=b"), footprint=cut),
    ]


def write_parquet(path, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def frame(geometry, crs=4326, **columns):
    """A table of so many pairs as there are geometries."""
    scenes = {role: [f"{role}{n}" for n in range(len(geometry))] for role in ("before", "after")}
    return geopandas.GeoDataFrame({**scenes, **columns}, geometry=geometry, crs=crs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.tsv", "pairs.parquet", "pairs.geoparquet"])
def test_what_is_written_is_read_again_but_for_a_table_without_a_row(tmp_path, name):
    rows = example(tmp_path)
    assert write_pairs(rows, tmp_path / name) == tmp_path / "pairs_footprints.geojson"
    assert read_pairs(tmp_path / name) == rows
    bare = [PairRow("a", "/x.tif", "/y.tif")]
    assert write_pairs(bare, tmp_path / name) is None
    assert read_pairs(tmp_path / name) == bare
    # A layer of other pairs would only mislead.
    assert [file.name for file in tmp_path.iterdir()] == [name]
    outline = Point(8, 47).buffer(1, quad_segs=5_000)
    write_pairs([PairRow("a", "/x.tif", "/y.tif", footprint=outline)], tmp_path / name)
    (row,) = read_pairs(tmp_path / name)
    assert len(row.footprint.exterior.coords) == len(outline.exterior.coords)
    write_pairs([], tmp_path / name)
    assert "no rows" in refused(tmp_path / name)


def test_a_table_without_footprints_removes_the_layer_of_the_one_that_it_replaces(tmp_path):
    path = tmp_path / "pairs.csv"
    assert write_pairs(example(tmp_path), path).is_file()
    write_pairs([PairRow("a", "/x.tif", "/y.tif")], path)
    assert not layer_path(path).exists()


def test_paths_are_relative_to_the_table_so_that_both_can_be_moved(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    write_pairs(example(old), old / "pairs.csv")
    assert "in/x 1.tif" in (old / "pairs.csv").read_text(encoding="utf-8")
    old.rename(new)
    assert read_pairs(new / "pairs.csv") == example(new)


def test_a_folder_or_nothing_in_the_place_of_a_table_is_no_file(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name in ("folder.csv", "none.csv"):
        assert refused(tmp_path / name).startswith("no such file")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_tables_of_any_spreadsheet_are_read(tmp_path, mark):
    text = "\ufeffPair, Before ,AFTER,cloud_before\r\np1, x.tif ,y.tif, 3 \r\n".replace(",", mark)
    path = tmp_path / "pairs.csv"
    path.write_bytes(text.encode())
    scenes = str(tmp_path / "x.tif"), str(tmp_path / "y.tif")
    assert read_pairs(path) == [PairRow("p1", *scenes, cloud_before=3.0)]


def test_names_are_made_of_site_and_dates_and_do_not_depend_on_the_order(tmp_path):
    lines = [
        "São Paulo/3,2019,2020,a.tif,b.tif,",
        "s,2019,2020,a1.tif,b1.tif,",
        "s,2019,2020,a2.tif,b2.tif,",
        "s,2019,2020,f/a2.tif,b2.tif,",
        "東京,2019,2020,c.tif,d.tif,",
        "大阪,2019,2020,c.tif,d2.tif,",
        ",2019,2020,lone1.tif,lone2.tif,",
        "t,2019,2021,c.tif,e.tif,",
        ",,,q.tif,r.tif,t_2019_2021",
    ]
    header = "site,date_before,date_after,before,after,pair\n"
    rows = read_pairs(table(tmp_path, header + "\n".join(lines)))
    turned = read_pairs(table(tmp_path, header + "\n".join(lines[::-1])))
    assert turned[::-1] == rows
    names = [row.pair for row in rows]
    assert names[:2] == ["Sao-Paulo-3_2019_2020", "s_a1_b1"]
    assert names[2] != names[3] and all(name.startswith("s_a2_b2_") for name in names[2:4])
    assert len(set(names)) == len(names)
    assert names[6:] == ["lone1_lone2", "t_c_e", "t_2019_2021"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "no column before and no column after"),
        ("before,After,before\n", "before"),
        ("before,site\na,b\n", "no column after"),
        ("before,after\n", "no rows"),
        ("before,after\na,b\n\n ,b\n", "line 4: the scene before"),
        ("before,after\na\n", "line 2: the scene after"),
        ("before,after\na,a\n", "line 2: "),
        ("before,after\na,b\nc,d\na,b\n", "line 4: "),
        ("pair,before,after\nP1,a,b\np1,c,d\n", "line 3: the pair 'p1'"),
        ("pair,before,after\n../p,a,b\n", "line 2: '../p'"),
        ("pair,before,after\n.p,a,b\n", "line 2: '.p'"),
        ("before,after,date_after\na,b,31.08.2019\n", "line 2: '31.08.2019'"),
        ("before,after,cloud_after\na,b,101\n", "line 2: cloud_after is '101'"),
        ("before,after,cloud_after\na,b,nan\n", "line 2: cloud_after is 'nan'"),
        ("before,after\na,b,c\n", "line 2: 3 cells"),
        ("before,after,footprint\na,b,POINT (1 2)\n", "line 2: the footprint is a Point"),
        ('before,after,footprint\na,b,"POLYGON ((0 0, inf 0, 1 1, 0 0))"\n', "line 2: the footprint"),
        ("before,after\na.tif,./x/../a.tif\n", "line 2: before and after are the same"),
        ("before,after,site\na,b,x\0y\n", "line 2: site"),
        ("before,after\nhttps://h/a?sig=1,b\nhttps://h/a?sig=2,b\n", "line 3: "),
        ("before,after,footprint\na,b,here\n", "line 2: the footprint is no polygon in WKT"),
    ],
)
def test_a_wrong_row_is_refused_by_its_line(tmp_path, text, place):
    assert place in refused(table(tmp_path, text))


def test_rows_over_several_lines_shift_no_count_and_messages_have_no_secrets(tmp_path):
    assert refused(table(tmp_path, 'before,after,note\na,b,"x\ny"\nc,,\n')).startswith("line 4: ")
    secret = "https://u:hush@example.org/a.tif?sig=hush"
    assert "hush" not in refused(table(tmp_path, f"before,after\n{secret},{secret}\n"))


def test_parquet_of_other_programs_is_read(tmp_path):
    path = tmp_path / "p.parquet"
    plain = {"before": ["x"], "after": ["y"], "date_after": [datetime.date(2019, 8, 31)]}
    write_parquet(path, **plain, cloud_after=[7], more=[1], site=[None])
    lines = []
    (row,) = read_pairs(path, lines.append)
    scenes = str(tmp_path / "x"), str(tmp_path / "y")
    assert row == PairRow("x_y", *scenes, date_after="2019-08-31", cloud_after=7.0)
    assert len(lines) == 1 and "more" in lines[0]

    frame([box(500_000, 0, 510_000, 9_000), None], 32633).rename_geometry("ground").to_parquet(path)
    first, second = read_pairs(path)
    assert first.footprint.bounds == pytest.approx((15, 0, 15.0898, 0.0814), abs=1e-3)
    assert second.footprint is None
    frame([Point(0, 0)] * 2).to_parquet(path)
    assert refused(path).startswith("row 1: the footprint is a Point")
    frame([box(1e9, 1e9, 2e9, 2e9)] * 2, 32633).to_parquet(path)
    assert refused(path).startswith("row 1: the footprint has an infinite corner")
    write_parquet(path, before=["x", None], after=["y", "z"])
    assert refused(path).startswith("row 2: the scene before")


@pytest.mark.parametrize(
    "cell", [pyarrow.array([b"\xf7"]).view("string"), pyarrow.array([2**31 - 1], "int32").view("date32")]
)
def test_a_cell_of_parquet_that_is_no_text_or_date_is_refused(tmp_path, cell):
    table = pyarrow.table({"before": ["x"], "after": ["y"], "date_before": cell})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    assert "Parquet" in refused(tmp_path / "p.parquet")


@pytest.mark.parametrize("wkt", ["POLYGON Z ((0 0 5, 1 0 5, 1 1 5, 0 0 5))", "POLYGON EMPTY"])
def test_footprints_are_flat_or_none(tmp_path, wkt):
    (row,) = read_pairs(table(tmp_path, f'before,after,footprint\na,b,"{wkt}"\n'))
    assert row.footprint is None if "EMPTY" in wkt else not row.footprint.has_z
    write_pairs([row], tmp_path / "again.csv")


@pytest.mark.parametrize(
    ("name", "site"),
    [
        *((name, "x") for name in (" s.tif", "=s.tif", "https:/h.tif", "'=s.tif")),
        *(("s.tif", site) for site in ("=cmd", "-5", "'=cmd", "''=x", "@x", "'t Zand", "a=b", "'")),
    ],
)
def test_any_name_and_site_is_read_again_and_no_site_is_a_formula_of_a_spreadsheet(tmp_path, name, site):
    rows = [PairRow("a", str(tmp_path / name), str(tmp_path / "b" / name), site=site)]
    for table in (tmp_path / "pairs.csv", tmp_path / "pairs.parquet"):
        write_pairs(rows, table)
        assert read_pairs(table) == rows
    line = (tmp_path / "pairs.csv").read_text(encoding="utf-8").splitlines()[1]
    assert line.split(",")[5][0] not in "=+-@"


def test_the_layer_of_footprints_has_no_secrets(tmp_path):
    rows = example(tmp_path)
    layer = write_pairs(rows, tmp_path / "pairs.csv")
    assert layer == layer_path(tmp_path / "pairs.csv")
    text = layer.read_text(encoding="utf-8")
    assert "sig" not in text
    features = json.loads(text)["features"]
    assert [feature["properties"]["pair"] for feature in features] == ["B-2", "c"]
    assert features[0]["properties"]["before"] == "https://example.org/x.tif"
    assert features[1]["geometry"]["type"] == "MultiPolygon"
    read = geopandas.read_file(layer)
    assert read.geometry[0].equals(rows[1].footprint) and read["cloud_before"].iloc[0] == 12.5
