"""Addresses on the command line and those that tables and reports name: --offline and --allow-host."""

import json
from collections import Counter

import pytest
from archive_pairs import InlineEngine
from captioners import FactCaptioner
from scene_pairs import make_pair
from servers import serving

from workflows.cli import batch as cli_batch

CHANGE = (20, 20, 20, 30, 220)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with two scenes in it, and no processes for an archive."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli_batch, "_engine", lambda *_: InlineEngine())
    make_pair(tmp_path, [CHANGE], size=(70, 90), names=("a_2016.tif", "b_2019.tif"))
    return tmp_path


@pytest.fixture
def server(here):
    """A server of our own network with the later scene."""
    with serving() as served:
        served.files["/b_2019.tif"] = (here / "b_2019.tif").read_bytes()
        yield served


@pytest.fixture
def table(here, server):
    """A table of a pair whose later scene is on the server, by a number for its host."""
    port = server.port
    (here / "pairs.csv").write_text(
        "pair,before,after\n"
        f"named,a_2016.tif,{server.address}/b_2019.tif?sig=hush\n"
        f"number,a_2016.tif,http://2130706433:{port}/b_2019.tif\n"
        f"gdal,a_2016.tif,/vsicurl/http://[::ffff:127.0.0.1]:{port}/b_2019.tif\n"
        "plain,a_2016.tif,b_2019.tif\n"
    )
    return "pairs.csv"


def failures(out):
    counts = Counter()
    for reason in json.loads(out)["reasons"]:
        counts[reason["error"]] += reason["count"]
    return counts


def test_a_table_leads_to_no_server_of_our_network(table, server, rscc_command):
    code, out, _ = rscc_command("batch", table, "-o", "out", "--dry-run", "--json")
    assert (code, failures(out)) == (0, {"AddressForbidden": 3})
    code, out, _ = rscc_command("batch", table, "-o", "out", "--json", "-q")
    assert (code, failures(out)) == (3, {"AddressForbidden": 3})
    code, out, _ = rscc_command("status", "out", "--failed")
    assert "--allow-host 127.0.0.1" in out and "hush" not in out
    code, out, _ = rscc_command("pairs", table, "-o", "checked.csv")
    assert code == 0 and "left out 3 unreadable" in out
    assert server.asked == []


@pytest.mark.slow
def test_a_host_that_is_allowed_is_asked(table, server, rscc_command):
    assert rscc_command("batch", table, "-o", "out", "-q")[0] == 3
    options = ("--allow-host", "127.0.0.1", "--retry-failed", "--json", "-q")
    code, out, _ = rscc_command("batch", table, "-o", "out", *options)
    # The pair that was done stays so: from where a scene may come has no influence on what is found.
    assert (code, json.loads(out)["done"], json.loads(out)["skipped_as_done"]) == (3, 2, 1)
    assert failures(out) == {"AddressForbidden": 2} and server.asked
    code, out, _ = rscc_command("pairs", table, "-o", "c.csv", "--allow-host", f"127.0.0.1:{server.port}")
    assert code == 0 and "left out 2 unreadable" in out


@pytest.mark.parametrize("host", ["http://h", "h/a", "a b", "", "h:port", "::1"])
def test_what_is_no_host_cannot_be_allowed(table, rscc_command, host):
    code, out, err = rscc_command("batch", table, "-o", "out", "--allow-host", host)
    assert (code, out) == (2, "") and "allow-host" in err


@pytest.mark.slow
def test_a_report_leads_to_no_server_of_our_network(here, server, rscc_command):
    assert rscc_command("caption", "a_2016.tif", "b_2019.tif", "-o", "r.geojson")[0] == 0
    report = here / "r.geojson"
    content = json.loads(report.read_text())
    content["rscc"]["inputs"]["after"]["path"] = f"{server.address}/b_2019.tif"
    report.write_text(json.dumps(content))
    command = ("explain", "r.geojson", "--id", 1, "--model", "mine")
    captioner = FactCaptioner()
    code, _, err = rscc_command(*command, captioner=captioner)
    assert code == 2 and "--allow-host 127.0.0.1" in err and server.asked == []
    code, _, err = rscc_command(*command, "--offline", captioner=captioner)
    assert code == 2 and "--offline" in err and server.asked == []
    # What the user names himself, and what he allows.
    named = ("--before", "a_2016.tif", "--after", f"{server.address}/b_2019.tif")
    assert rscc_command(*command, *named, captioner=captioner)[0] == 0
    assert rscc_command(*command, "--allow-host", "127.0.0.1", captioner=captioner)[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        "caption a_2016.tif ADDRESS/b_2019.tif",
        "caption ADDRESS/b_2019.tif a_2016.tif --json",
        "caption a_2016.tif /vsicurl/ADDRESS/b_2019.tif",
        "caption a_2016.tif s3://bucket/b_2019.tif",
        "inspect a_2016.tif ADDRESS/b_2019.tif",
        "explain a_2016.tif ADDRESS/b_2019.tif -o p.png",
        "pairs ADDRESS/catalog.json",
    ],
)
def test_offline_opens_no_address(here, server, rscc_command, command):
    before = {path.name for path in here.iterdir()}
    code, _, err = rscc_command(*command.replace("ADDRESS", server.address).split(), "--offline")
    assert code == 2 and err.count("\n") == 1 and "--offline" in err
    assert server.asked == [] and {path.name for path in here.iterdir()} == before


@pytest.mark.slow
def test_offline_works_on_what_is_here(table, server, rscc_command):
    assert rscc_command("caption", "a_2016.tif", "b_2019.tif", "--offline")[0] == 0
    options = ("--offline", "--allow-host", "127.0.0.1", "--json", "-q")
    code, out, _ = rscc_command("batch", table, "-o", "out", *options)
    assert (code, json.loads(out)["done"], failures(out)) == (3, 1, {"AddressForbidden": 3})
    assert rscc_command("pairs", table, "-o", "checked.csv", "--offline")[0] == 0
    assert rscc_command("pairs", ".", "-o", "folder.csv", "--offline")[0] == 0
    assert server.asked == []
