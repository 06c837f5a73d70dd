"""The feed and the notices of a monitor."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest
from painted_series import find_squares, write_series
from servers import SilentHandler, answering

from tiling import ANYWHERE, AddressForbidden
from workflows.errors import NoticeFailed, OptionInvalid, OutputExists, OutputNotWritable
from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions
from workflows.monitor.outputs.notices import send

ATOM, GEORSS = "{http://www.w3.org/2005/Atom}", "{http://www.georss.org/georss}"


def update(folder, *scenes, feed=None, notify=None, **options):
    return run_monitor(
        list(map(str, scenes)),
        folder / "out",
        MonitorOptions(**options),
        None,
        finder=find_squares,
        feed=feed,
        notify=notify,
    )


def test_the_feed_has_confirmed_events_with_their_ground(tmp_path):
    write_series(tmp_path / "town")
    feed = tmp_path / "feed.xml"
    update(tmp_path, tmp_path / "town", feed=feed)
    entries = ElementTree.parse(feed).getroot().findall(f"{ATOM}entry")
    assert [entry.find(f"{ATOM}category").get("term") for entry in entries] == ["confirmed"] * 2
    assert [entry.findtext(f"{ATOM}updated")[:7] for entry in entries] == ["2018-09", "2018-07"]
    numbers = list(map(float, entries[0].findtext(f"{GEORSS}polygon").split()))
    assert numbers[:2] == numbers[-2:] and 50 < numbers[0] < 51 and 15 < numbers[1] < 16
    before = feed.read_bytes()
    update(tmp_path, tmp_path / "town", feed=feed)
    assert feed.read_bytes() == before


def test_a_feed_replaces_no_other_file(tmp_path):
    write_series(tmp_path / "town")
    feed = tmp_path / "letter.xml"
    feed.write_text("<letter/>")
    with pytest.raises(OutputExists, match=r"letter\.xml"):
        update(tmp_path, tmp_path / "town", feed=feed)
    assert feed.read_text() == "<letter/>" and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_each_change_of_state_is_one_line_told_once(tmp_path):
    paths = write_series(tmp_path / "town")
    target = tmp_path / "notices.jsonl"
    for path in paths:
        update(tmp_path, path, notify=str(target))
        update(tmp_path, path, notify=str(target))
    notices = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(one["subject"][-1], one["type"].rpartition(".")[2]) for one in notices] == [
        ("1", "candidate"), ("1", "confirmed"), ("2", "candidate"), ("2", "confirmed"), ("3", "candidate"),
    ]  # fmt: skip
    assert [one["id"].rpartition("/")[2] for one in notices] == ["1", "2", "3", "4", "5"]
    assert len({one["id"].rpartition("/")[0] for one in notices}) == 1
    assert len({one["source"] for one in notices}) == 1
    assert {one["specversion"] for one in notices} == {"1.0"} and notices[1]["data"]["was"] == "candidate"


def test_what_a_killed_run_told_and_did_not_record_is_not_told_again(tmp_path):
    target = tmp_path / "notices.jsonl"
    one, other = ({"specversion": "1.0", "source": "urn:m", "id": f"town/{number}"} for number in (1, 2))
    elsewhere = {**one, "source": "urn:n"}
    for notices in ([one], [one, other], [one, other], [elsewhere]):
        send(notices, str(target), ANYWHERE)
    assert [json.loads(line) for line in target.read_text().splitlines()] == [one, other, elsewhere]


def test_a_line_that_a_killed_run_left_is_completed(tmp_path):
    paths = write_series(tmp_path / "town")
    target = tmp_path / "notices.jsonl"
    update(tmp_path, *paths[:3], notify=str(target))
    whole = target.read_bytes()
    target.write_bytes(whole[:-20])
    told = tmp_path / "out" / "told.json"
    told.unlink()
    update(tmp_path, paths[0], notify=str(target))
    assert target.read_bytes() == whole


@pytest.mark.parametrize("content", ["dear reader\n", '{"a": 1}\n', "[]\n"])
def test_notices_are_added_to_no_other_file(tmp_path, content):
    write_series(tmp_path / "town")
    target = tmp_path / "letter.txt"
    target.write_text(content)
    with pytest.raises(OutputExists, match=r"letter\.txt"):
        update(tmp_path, tmp_path / "town", notify=str(target))
    assert target.read_text() == content


@pytest.mark.parametrize("option", ["feed", "notify"])
@pytest.mark.parametrize("kind", ["pipe", "device", "holes"])
def test_nothing_is_told_to_a_pipe_and_no_endless_file_is_read(tmp_path, option, kind):
    write_series(tmp_path / "town")
    target = tmp_path / "news"
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "device":
        target.symlink_to("/dev/zero")
    else:
        with target.open("wb") as file:
            file.truncate(2**40)
    with ThreadPoolExecutor(1) as pool:
        options = {option: target if option == "feed" else str(target)}
        told = pool.submit(update, tmp_path, tmp_path / "town", **options)
        with pytest.raises((OutputExists, OutputNotWritable), match="news"):
            told.result(60)
    assert not (tmp_path / "out").exists()


def test_a_server_gets_each_notice_and_a_failed_one_again(tmp_path):
    received, codes = [], [500]

    class Receiver(SilentHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            code = codes.pop() if codes else 204
            if code == 204:
                received.append((self.headers["Content-Type"], json.loads(content)["type"]))
            self.send_response(code)
            self.end_headers()

    paths = write_series(tmp_path / "town")
    with answering(Receiver) as port:
        address = f"http://127.0.0.1:{port}/in?token=secret"
        with pytest.raises(NoticeFailed, match=r"HTTP 500") as failed:
            update(tmp_path, *paths, notify=address)
        assert "secret" not in str(failed.value) and received == []
        update(tmp_path, *paths, notify=address)
        assert [kind for _, kind in received].count("rscc.event.confirmed") == 2
        count = len(received)
        update(tmp_path, *paths, notify=address)
        assert len(received) == count
        assert received[0][0].startswith("application/cloudevents+json")
    assert all("secret" not in path.read_text() for path in (tmp_path / "out").glob("*.json"))


def test_a_notice_follows_no_redirect(tmp_path):
    class Elsewhere(SilentHandler):
        def do_POST(self):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()

    write_series(tmp_path / "town")
    with answering(Elsewhere) as port, pytest.raises(NoticeFailed, match="HTTP 302"):
        update(tmp_path, tmp_path / "town", notify=f"http://127.0.0.1:{port}/")


def test_offline_and_other_schemes_are_refused_first(tmp_path):
    write_series(tmp_path / "town")
    with pytest.raises(AddressForbidden):
        update(tmp_path, tmp_path / "town", notify="https://example.org/", offline=True)
    with pytest.raises(OptionInvalid, match="ftp"):
        update(tmp_path, tmp_path / "town", notify="ftp://example.org/")
    with pytest.raises(OptionInvalid, match="both"):
        update(tmp_path, tmp_path / "town", feed=tmp_path / "news", notify=str(tmp_path / "news"))
    assert not (tmp_path / "out").exists()
