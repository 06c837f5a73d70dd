"""Which servers may be asked for a scene that the user did not name himself."""

from __future__ import annotations

import socket
from itertools import product

import pytest
from rasters import refused
from servers import serving

from tiling import Access, AddressForbidden, SceneUnreachable, describe, locate, open_scene
from tiling.gdal import safe_environment

OTHERS = Access(hosts=())

INNER = [
    "127.0.0.1", "127.1", "127.0.0.1.", "2130706433", "0x7f000001", "0x7f.0.0.1", "0X7F.1", "0177.0.0.1",
    "017700000001", "127.0.0.0x1", "0", "0.0.0.0", "10.0.0.1", "10.1", "172.16.3.4", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1", "239.1.2.3", "255.255.255.255",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]",
    "[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[fe80::1]", "[fec0::1]", "[fd00::1]", "[ff02::1]", "localhost", "LOCALHOST", "localhost.",
]  # fmt: skip
TRICKS = [
    "maps.example\\@127.0.0.1", "a@b@127.0.0.1", "%31%32%37.0.0.1", "①②⑦.0.0.1", "[fe80::1%25eth0]",
    "１27.0.0.1", "maps.example:80:80", "maps.example:99999999", "[::1", "::1", "maps。example",
]  # fmt: skip


@pytest.fixture
def names(monkeypatch):
    """Names of hosts; no resolver is asked."""
    known = {
        "maps.example": ["93.184.216.34", "2606:2800:220:1::1"],
        "inner.example": ["93.184.216.34", "10.0.0.7"],
        "mapped.example": ["::ffff:169.254.169.254"],
        "link.example": ["fe80::1%eth0"],
        "localhost": ["127.0.0.1", "::1"],
    }

    def looked_up(host, port, **_):
        addresses = known.get(host.lower().rstrip("."))
        if addresses is None:
            raise socket.gaierror("no such name")
        return [(None, None, None, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return known


@pytest.mark.parametrize("address", ["http://{}/a.tif", "https://me:word@{}:8443/a.tif?sig=0123456789abcdef"])
def test_no_stranger_leads_to_a_host_of_our_own_network(names, address):
    for prefix, host in product(("", "/vsicurl/"), INNER):
        location = locate(prefix + address.format(host))
        error = refused(AddressForbidden, location, host.lower(), describing=OTHERS.check)
        assert error.exit_code == 2
        Access().check(location)


@pytest.mark.parametrize("host", TRICKS)
def test_an_address_that_programs_read_in_different_ways_is_refused(names, host):
    refused(AddressForbidden, locate(f"http://{host}/a.tif"), describing=OTHERS.check)
    # Not even where it is said to be allowed.
    allowing = Access(hosts=(host, "maps.example", "127.0.0.1"))
    refused(AddressForbidden, locate(f"http://{host}/a.tif"), describing=allowing.check)


@pytest.mark.parametrize("scheme", ["file", "ftp", "gopher", "dict"])
def test_no_other_scheme_is_an_address(scheme):
    refused(
        AddressForbidden,
        f"{scheme}://maps.example/a",
        describing=lambda text: OTHERS.check_address("it", text),
    )


def test_all_addresses_of_a_name_count(names):
    OTHERS.check(locate("https://maps.example/a.tif"))
    OTHERS.check(locate("http://93.184.216.34:8080/a.tif"))
    OTHERS.check(locate("http://[2606:2800:220:1::1]/a.tif"))
    for name in ("inner.example", "mapped.example", "link.example"):
        refused(AddressForbidden, locate(f"https://{name}/a.tif"), name, describing=OTHERS.check)
    unknown = locate("https://nobody.example/a.tif")
    assert refused(SceneUnreachable, unknown, "nobody.example", describing=OTHERS.check).exit_code == 1


@pytest.mark.parametrize(
    ("allowed", "address", "passes"),
    [
        ("localhost", "http://localhost:8080/a.tif", True),
        ("LocalHost", "http://LOCALHOST/a.tif", True),
        ("localhost:8080", "http://localhost:8080/a.tif", True),
        ("localhost:80", "http://localhost/a.tif", True),
        ("localhost:443", "https://localhost/a.tif", True),
        ("[::1]", "http://[::1]:8080/a.tif", True),
        ("[::1]:8080", "http://[::1]:8080/a.tif", True),
        ("localhost:8080", "http://localhost:9200/a.tif", False),
        ("localhost", "http://127.0.0.1/a.tif", False),
        ("[::1]:8080", "http://[::1]/a.tif", False),
        ("nobody.example", "http://nobody.example/a.tif", True),
    ],
)
def test_a_host_may_be_allowed_by_name_and_port(names, allowed, address, passes):
    access = Access(hosts=(allowed,))
    if passes:
        access.check(locate(address))
    else:
        refused(AddressForbidden, locate(address), describing=access.check)


def test_a_bucket_cannot_change_the_host(monkeypatch):
    """GDAL puts it before the name of the server as it is."""
    for name, value in (("AWS_HTTPS", "NO"), ("AWS_NO_SIGN_REQUEST", "YES"), ("GDAL_HTTP_MAX_RETRY", "0")):
        monkeypatch.setenv(name, value)
    with serving() as server:
        for bucket in (f"localhost:{server.port}#", f"2130706433:{server.port}?"):
            refused(AddressForbidden, f"s3://{bucket}/a.tif", describing=lambda name: describe(name, OTHERS))
        assert server.asked == []
    OTHERS.check(locate("s3://sentinel-cogs/a.tif"))
    OTHERS.check(locate("/vsigs/my.bucket_1/a.tif"))
    OTHERS.check(locate("az://$web/a.tif"))
    for bucket in ("127.0.0.1#", "127.0.0.1:80?", "a@127.0.0.1:80#", "b\\", "b%2F"):
        refused(AddressForbidden, locate(f"s3://{bucket}/a.tif"), describing=OTHERS.check)


def test_a_scene_that_was_described_keeps_its_limits(tiff):
    with serving() as server:
        server.files["/a.tif"] = tiff
        address = f"{server.address}/a.tif"
        refused(AddressForbidden, address, describing=lambda a: describe(a, OTHERS))
        refused(AddressForbidden, address, describing=lambda a: describe(a, Access(offline=True)))
        with pytest.raises(AddressForbidden), open_scene(address, OTHERS):
            pass
        assert server.asked == []
        allowed = Access(hosts=(f"127.0.0.1:{server.port}",))
        info = describe(address, allowed)
        assert info.access == allowed and describe(address).access == Access()
        with open_scene(info) as file:
            assert file.width == 60


def test_offline_opens_nothing_in_a_cloud_and_everything_on_this_machine(tmp_path, tiff):
    for name in ("s3://bucket/a.tif", "/vsigs/bucket/a.tif", "az://box/a.tif", "https://maps.example/a.tif"):
        refused(AddressForbidden, locate(name), describing=Access(offline=True).check)
    path = tmp_path / "a.tif"
    path.write_bytes(tiff)
    assert describe(path, Access(offline=True, hosts=())).width == 60


def test_the_options_of_gdal_that_versions_differ_in_are_set(monkeypatch):
    pinned = {
        "GDAL_VRT_ENABLE_PYTHON": "NO",
        "GDAL_VRT_ENABLE_RAWRASTERBAND": "NO",
        "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "SIBLING_OR_CHILD_OF_VRT_PATH",
        "CPL_VSIL_CURL_HEADER_FILE_KVP_ENABLED": "NO",
    }
    for name in pinned:
        monkeypatch.setenv(name, "YES")
    for source in ("", "/folder/a.tif", "/vsicurl/http://h/a.tif"):
        with safe_environment(source) as env:
            assert pinned.items() <= env.options.items()
