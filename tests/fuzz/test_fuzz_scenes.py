"""Damaged VRTs, sidecars and archives: refused in one line, or read; never another error."""

from __future__ import annotations

import random
import shutil
from xml.etree import ElementTree

import pytest
from damage import damaged_bytes, fuzzed, mutated, ours_only
from fuzz_bases import _sidecars, _vrt, _zip
from hypothesis import given
from hypothesis import strategies as st

from tiling import ScenePair, describe
from tiling.vrt_checks import checked_vrt
from workflows.dates import parse_date, scene_date
from workflows.pairs.headers import tag_clouds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[_vrt, _sidecars, _zip], ids=["vrt", "sidecars", "zip"])
def base(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("base"))


@fuzzed
@given(rng=st.integers(0, 2**32).map(random.Random))
def test_scenes(base, rng: random.Random, tmp_path_factory):
    """Its header is read, and a pair with it is opened and looked at, or it is refused."""
    folder = tmp_path_factory.getbasetemp() / f"case-{base.name}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base.folder, folder)
    file = folder / rng.choice(base.mutable)
    file.write_bytes(mutated(file.read_bytes(), rng))
    before, after = folder / base.words[1], folder / base.words[2]
    with ours_only():
        describe(before)
        with ScenePair.open(before, after) as pair:
            assert pair.grid.width > 0


VRT = (
    b'<VRTDataset rasterXSize="8" rasterYSize="8"><SRS>EPSG:32633</SRS><VRTRasterBand dataType="Byte" '
    b'band="1"><SimpleSource><SourceFilename relativeToVRT="1" shared="0">a.tif</SourceFilename>'
    b"<SourceBand>1</SourceBand>"
    b'<SrcRect xOff="0" yOff="0" xSize="8" ySize="8"/></SimpleSource></VRTRasterBand></VRTDataset>'
)


@fuzzed
@given(content=damaged_bytes(VRT))
def test_no_vrt_that_passes_names_anything_outside_its_folder(content, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "vrt"
    folder.mkdir(exist_ok=True)
    (folder / "x.vrt").write_bytes(content)
    with ours_only():
        checked = checked_vrt("x.vrt", folder / "x.vrt")
        assert all(source.is_relative_to(folder.resolve()) for source in checked.sources)
        written = checked.text({source: f"pinned-{number}" for number, source in enumerate(checked.sources)})
        names = [element.text or "" for element in ElementTree.fromstring(written).iter("SourceFilename")]
        assert all(name.startswith("pinned-") for name in names)
        assert "<?" not in written and "<!" not in written


@given(text=st.text(max_size=40))
def test_dates_and_clouds_of_names_and_tags(text):
    with ours_only():
        parse_date(text)
    assert scene_date(text, {"ACQUISITIONDATE": text}).source in (None, "tag", "file name")
    clouds = tag_clouds([("CLOUD_COVER", text), (text, "7")])
    assert clouds is None or 0 <= clouds <= 100
