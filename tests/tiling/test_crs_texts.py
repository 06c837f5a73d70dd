"""CRS texts that name a file are refused before GDAL or PROJ opens it: a pipe there would block for ever."""

from __future__ import annotations

import os
import re
import struct
import warnings
import zipfile

import pyproj
import pytest
from rasters import textured, write_scene

from tiling import UnsafeReference, checked_crs, describe

BASE = (
    'GEOGCS["a",DATUM["b",SPHEROID["WGS 84",6378137,298.257223563]{}],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.017]]'
)
TARGET = pyproj.CRS("EPSG:4326").to_wkt()
BOUND = (
    f'BOUNDCRS[SOURCECRS[{pyproj.CRS("EPSG:32633").to_wkt()}],TARGETCRS[{TARGET}],ABRIDGEDTRANSFORMATION["x",'
    'METHOD["NTv2",ID["EPSG",9615]],PARAMETERFILE["Latitude and longitude difference file","{}"]]]'
)
UNSAFE = [
    BOUND,
    BOUND.replace("PARAMETERFILE", "ParameterFile"),
    BASE.format(',EXTENSION["PROJ4_GRIDS","{}"]'),
    BASE.format(',EXTENSION["PROJ4","+proj=longlat +nadgrids=@null,{} +no_defs"]'),
    "+proj=utm +zone=33 +nadgrids={}",
    "+proj=utm +zone=33 +nadgrids=@null+/../{}",
    "https://www.opengis.net/gml/srs/epsg.xml#4326",
    "+proj=utm +zone=33 +geoidgrids = {} +vunits=m",
    "+init={}:1",
    "init={}:1",
    "+proj=pipeline +step +proj=hgridshift +grids={}",
    '{{"type": "BoundCRS", "parameters": [{{"name": "file", "value": "{}"}}]}}',
    '{{"type": "BoundCRS", "par\\u0061meters": [{{"name": "file", "v\\u0061lue": "{}"}}]}}',
    "{}",
    "file://{}",
]


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("text", UNSAFE)
def test_texts_that_name_a_file_are_refused(text) -> None:
    text = text.format("/some/where") if "BOUNDCRS" not in text else text.replace("{}", "/some/where")
    with pytest.raises(UnsafeReference):
        checked_crs(text)


@pytest.mark.parametrize("text", ["", "a" * 200_000, "[" * 5000, "{" + '"a":{' * 5000, "EPSG:1 +init=x:1"])
def test_what_is_no_crs_is_refused(text) -> None:
    with pytest.raises(UnsafeReference):
        checked_crs(text)


@pytest.mark.parametrize("code", [4326, 32633, 3857, 2056, 27700, 31370, 7415, 4269, 26916, 2263, 3035])
def test_every_way_to_write_a_map_is_accepted(code) -> None:
    crs = pyproj.CRS.from_epsg(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = [crs.to_wkt(), crs.to_wkt("WKT1_GDAL"), crs.to_json(), crs.to_proj4(), f"EPSG:{code}"]
    for text in [*texts, f"urn:ogc:def:crs:EPSG::{code}"]:
        assert checked_crs(f" {text}\n") == text


def unsafe_aux_xml(folder, text):
    (folder / "a.tif.aux.xml").write_text(f"<PAMDataset><srs>{text}</srs></PAMDataset>")
    return folder / "a.tif"


def unsafe_attribute(folder, text):
    (folder / "a.tif.aux.xml").write_text(f'<PAMDataset><GCPList Projection="{text}"/></PAMDataset>')
    return folder / "a.tif"


def unsafe_esri(folder, text):
    inner = f"<GeodataXform><SpatialReference><WKT>{text}</WKT></SpatialReference></GeodataXform>"
    (folder / "a.tif.aux.xml").write_text(
        f'<PAMDataset><Metadata domain="xml:ESRI">{inner}</Metadata></PAMDataset>'
    )
    return folder / "a.tif"


def unsafe_split(folder, text):
    text = text.replace("PARAMETER", "PARA<!-- -->METER").replace("grids", "gri<![CDATA[ds]]>")
    return unsafe_aux_xml(folder, text)


def unsafe_broken(folder, text):
    (folder / "a.tif.aux.xml").write_text(f"<PAMDataset><SRS>{text}</SRS>")
    return folder / "a.tif"


def unsafe_vrt(folder, text):
    source = '<SimpleSource><SourceFilename relativeToVRT="1">a.tif</SourceFilename></SimpleSource>'
    (folder / "a.vrt").write_text(
        f'<VRTDataset rasterXSize="40" rasterYSize="40"><SRS>{text}</SRS>'
        f'<VRTRasterBand dataType="Byte" band="1">{source}</VRTRasterBand></VRTDataset>'
    )
    return folder / "a.vrt"


def unsafe_zip(folder, text):
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a.jp2", jpeg2000(text))
    return folder / "a.zip"


def unsafe_jpeg2000(folder, text):
    (folder / "a.jp2").write_bytes(jpeg2000(text))
    return folder / "a.jp2"


def test_a_geotiff_with_such_a_text_is_refused(tmp_path) -> None:
    named = (
        pyproj.CRS.from_epsg(32633).to_wkt("WKT1_GDAL").replace("WGS 84 / UTM zone 33N", "+nadgrids=/dev/x")
    )
    crs = re.sub(r',AUTHORITY\["EPSG","32633"\]\]$', "]", named)
    with pytest.raises(UnsafeReference):
        describe(write_scene(tmp_path / "a.tif", textured(40, 40), crs=crs))


def jpeg2000(text) -> bytes:
    gml = f'<gml:FeatureCollection><gml:RectifiedGrid srsName="{text}"/></gml:FeatureCollection>'.encode()
    boxes = [(b"jP  ", b"\r\n\x87\n"), (b"ftyp", b"jp2 \0\0\0\0jp2 "), (b"xml ", gml), (b"jp2c", b"\xff\x4f")]
    return b"".join(struct.pack(">I4s", 8 + len(content), kind) + content for kind, content in boxes)


@pytest.mark.parametrize("text", [BOUND, "+proj=utm +zone=33 +nadgrids={}", "+init={}:1"])
@pytest.mark.parametrize(
    "place",
    [
        unsafe_aux_xml, unsafe_attribute, unsafe_esri, unsafe_split, unsafe_broken, unsafe_vrt,
        unsafe_jpeg2000, unsafe_zip,
    ],
)  # fmt: skip
def test_a_pipe_that_a_crs_names_is_never_opened(place, text, pipe, tmp_path) -> None:
    write_scene(tmp_path / "a.tif", textured(40, 40), crs=None)
    named = place(tmp_path, text.replace("{}", str(pipe)).replace('"', "&quot;"))
    with pytest.raises(UnsafeReference):
        describe(named)
