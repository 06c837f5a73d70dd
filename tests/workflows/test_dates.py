import pytest

from workflows.dates import PartialDate, parse_date, scene_date
from workflows.errors import DateInvalid


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("m_4709963_se_14_1_20090818.tif", "2009-08-18"),
        ("scenes/2009-08-18.tif", "2009-08-18"),
        ("place_2009_08_18_rgb.tif", "2009-08-18"),
        ("S2A_MSIL1C_20150820T081006_N0204_R078.tif", "2015-08-20"),
        ("LC08_L1TP_006066_20150820_20170405_01_T1.tif", "2015-08-20"),
        ("20150820081006.tif", "2015-08-20"),
        ("1985.tif", "1985"),
        ("before_1985_30m.tif", "1985"),
        ("2019/after.tif", None),
        ("20091318.tif", None),
        ("2009-02-30.tif", "2009"),
        ("2009-0818.tif", "2009"),
        ("tile_1024_2048.tif", None),
        ("from_1985_to_2020.tif", None),
        ("scene120090818.tif", None),
        ("before.tif", None),
        ("20٢٠.tif", None),
        ("2019-08-٣١.tif", "2019-08"),
        ("2018-01.tif", "2018-01"),
        ("global_monthly_2018_01_mosaic_L15-0331E-1257N_1327_3160_13.tif", "2018-01"),
        ("2018-13.tif", "2018"),
        ("2018-01_2019-02.tif", None),
        ("201801.tif", None),
        ("scenes/S2_20190818.zip/rgb.tif", "2019-08-18"),
        ("/vsizip/town_2019.zip/rgb.tif", "2019"),
        ("town_2019.zip/rgb_2018.tif", "2018"),
        ("town_20190101.zip/rgb_2018.tif", "2019-01-01"),
        ("2018/town_2019.zip", "2019"),
        ("https://host.org/2016/b_2019.tif", "2019"),
    ],
)
def test_dates_in_file_names(name, date):
    taken = scene_date(name, {})
    assert (taken.value, taken.source) == (date, None if date is None else "file name")


@pytest.mark.parametrize(
    ("tags", "date"),
    [
        ({"ACQUISITIONDATETIME": "20150820"}, "2015-08-20"),
        ({"ACQUISITIONDATETIME": "2015-08-20T10:11:12Z"}, "2015-08-20"),
        ({"acquisition_date": "2015/08/20"}, "2015-08-20"),
        ({"TIFFTAG_DATETIME": "2015:08:20 10:11:12"}, "2015-08-20"),
        ({"TIFFTAG_DATETIME": "never"}, None),
    ],
)
def test_dates_in_tags(tags, date):
    assert scene_date("scene.tif", tags).value == date


def test_what_stands_first():
    tags = {"ACQUISITION_DATE": "2001-01-01", "TIFFTAG_DATETIME": "2004:04:04 00:00:00"}
    assert scene_date("2003-03-03.tif", tags, "2000").value == "2000"
    assert scene_date("2003-03-03.tif", tags).value == "2001-01-01"
    del tags["ACQUISITION_DATE"]
    assert scene_date("2003-03-03.tif", tags).value == "2003-03-03"
    assert scene_date("2003.tif", tags).value == "2004-04-04"


@pytest.mark.parametrize("text", ["2019", "2019-08", "2019-08-31", " 2019 "])
def test_a_date_given_by_a_person(text):
    assert parse_date(text) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "19", "2019-13", "2019-02-30", "31.08.2019", "2019-8", "20190831", "yesterday", "٢٠١٩"]
)
def test_a_wrong_date_is_refused(text):
    with pytest.raises(DateInvalid):
        parse_date(text)


def test_partial_dates_order_by_the_middle_of_what_they_cover():
    dates = [PartialDate(text) for text in ("2019", "2018-12", "2018-02-28", "2018-02", "2018")]
    assert [str(date) for date in sorted(dates)] == ["2018-02", "2018-02-28", "2018", "2018-12", "2019"]
    assert (PartialDate("2020-02").last.day, PartialDate("2019").first.isoformat()) == (29, "2019-01-01")


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("2020_01", "2020-01"),
        ("31-08-2019", "2019-08-31"),
        ("31.08.2019", "2019-08-31"),
        ("08-31-2019", "2019-08-31"),
        ("05-06-2019", "2019"),
        ("31Aug2019", "2019-08-31"),
        ("august_2019", "2019-08"),
        ("08-2019", "2019-08"),
        ("tile_08_2019", "2019"),
        ("LC80060662015232LGN00", "2015-08-20"),
        ("HLS.L30.T10SEG.2020123T183444.v2.0.B04", "2020-05-02"),
        ("20JAN31101112-M2AS_R1C1", "2020-01-31"),
        ("town_19-08-31", "2019-08-31"),
        ("town_310819", "2019-08-31"),
        ("99-12-31_town", "1999-12-31"),
        ("town_12-03-15", None),
        ("town_120315", None),
        ("town_310819_2018", "2018"),
        ("tile_4709963", None),
        ("v1.19.08.31", None),
        ("310819_300818", None),
    ],
)
def test_names_of_products_and_people_keep_the_precision_of_their_dates(name, date):
    taken = scene_date(f"{name}.tif", {})
    assert taken.value == date
    assert (taken.doubt is not None) == (taken.read_from is not None and taken.read_from in name)


@pytest.mark.parametrize(
    ("name", "exported", "value", "is_told"),
    [
        ("2015.tif", "2023:02:01 10:00:00", "2015", True),
        ("2015-03.tif", "2023:02:01 10:00:00", "2015-03", True),
        ("2015.tif", "2016:11:01 10:00:00", "2016-11-01", False),
        ("2015-03.tif", "2015:06:01 10:00:00", "2015-03", False),
        ("2015-03-04.tif", "2015:06:01 10:00:00", "2015-03-04", False),
    ],
)
def test_a_late_export_date_is_not_believed_but_told(name, exported, value, is_told):
    taken = scene_date(name, {"TIFFTAG_DATETIME": exported})
    assert taken.value == value and (taken.doubt is not None) == is_told
    if is_told:
        assert "2023-02-01" in taken.doubt and value in taken.doubt
