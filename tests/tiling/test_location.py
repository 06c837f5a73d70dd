"""What a user may call a scene, and what GDAL opens then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rasters import refused

from tiling import LocationUnsupported, TilingError
from tiling.location import locate

SECRET = "X-Amz-Signature=0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "shown", "source"),
    [
        ("https://example.org/x/a.tif", None, "/vsicurl/https://example.org/x/a.tif"),
        ("HTTP://example.org/a.tif", "http://example.org/a.tif", "/vsicurl/http://example.org/a.tif"),
        (
            f"https://example.org/a.tif?{SECRET}#p",
            "https://example.org/a.tif",
            f"/vsicurl/https://example.org/a.tif?{SECRET}#p",
        ),
        (
            "https://me:hunter2@example.org:8080/a.tif",
            "https://example.org:8080/a.tif",
            "/vsicurl/https://me:hunter2@example.org:8080/a.tif",
        ),
        (
            f"/vsicurl/https://me:hunter2@example.org/a.tif?{SECRET}",
            "/vsicurl/https://example.org/a.tif",
            f"/vsicurl/https://me:hunter2@example.org/a.tif?{SECRET}",
        ),
        ("s3://bucket/x/a.tif", None, "/vsis3/bucket/x/a.tif"),
        ("gs://bucket/x/a.tif", None, "/vsigs/bucket/x/a.tif"),
        ("az://container/x/a.tif", None, "/vsiaz/container/x/a.tif"),
        ("/vsis3/bucket/a.tif", None, "/vsis3/bucket/a.tif"),
        ("/vsigs/bucket/a.tif", None, "/vsigs/bucket/a.tif"),
        ("/vsiaz/bucket/a.tif", None, "/vsiaz/bucket/a.tif"),
        (f"s3://bucket/a.tif?{SECRET}", "s3://bucket/a.tif", f"/vsis3/bucket/a.tif?{SECRET}"),
    ],
)
def test_addresses_become_what_gdal_opens_and_show_no_secret(name, shown, source):
    location = locate(name)
    assert (location.shown, location.source, location.local) == (shown or name, source, None)
    assert locate(location.source).source == location.source
    assert "0123456789abcdef" not in repr(location) and "hunter2" not in repr(location)


@pytest.mark.parametrize(
    "name",
    [
        "ftp://me:hunter2@example.org/a.tif",
        "file:///etc/passwd",
        f"foo://example.org/a.tif?{SECRET}",
        "zip://a.zip!a.tif",
        "/vsistdin/",
        "/vsisubfile/0_10,a.tif",
        "/vsigzip/a.tif.gz",
        "/vsitar/a.tar/a.tif",
        "/vsimem/a.tif",
        "/vsicurl/file:///etc/passwd",
        "/vsicurl/ftp://example.org/a.tif",
        f"/vsicurl?url=https://example.org/a.tif&{SECRET}",
        "/vsicurl_streaming/https://example.org/a.tif",
        "/vsis3_streaming/bucket/a.tif",
        "/vsizip/vsicurl/https://example.org/a.zip/a.tif",
        "/vsizip//vsicurl/https://example.org/a.zip/a.tif",
        "https://example.org/a.zip",
        "s3://bucket/a.zip/a.tif",
        "https://example.org",
        "https://example.org/",
        "https:///a.tif",
        f"https://example.org?{SECRET}",
        f"https://user:hunter2?{SECRET}@example.org/a.tif",
        "s3://bucket",
        "s3://bucket/",
        "/vsis3/bucket",
    ],
)
def test_other_names_are_refused(name):
    error = refused(LocationUnsupported, name)
    assert error.exit_code == 2


@pytest.mark.slow
@given(
    st.text(max_size=60), st.sampled_from(["", "https://", "/vsicurl/http://", "s3://", "/vsi", "/vsizip/"])
)
def test_any_text_is_located_or_refused_in_one_line(text, prefix):
    try:
        location = locate(prefix + text)
    except TilingError as error:
        assert "\n" not in str(error) or "\n" in text
    else:
        assert location.source.startswith("/")
