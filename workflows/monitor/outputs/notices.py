"""Notices of changes of state as CloudEvents 1.0: lines of JSON in a file, or requests to an address.

Nothing is lost when a run is killed: what was not told is told by the next run, and a notice that comes twice
has the same id.
"""

import io
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from rscc.files import parsed_json, read_file
from tiling import Access, open_regular
from workflows.addresses import public_path
from workflows.archive.folder import writing
from workflows.dates import PartialDate
from workflows.errors import NoticeFailed, OptionInvalid, OutputExists
from workflows.files import check_folder
from workflows.monitor.outputs.feed import URN
from workflows.monitor.stored import News
from workflows.monitor.view import PlaceView
from workflows.pairs.stac_documents import is_web
from workflows.report.geojson import bbox_of

TIMEOUT = 20.0
"""Seconds that a server may be silent."""
_TYPE = "rscc.event."
_CONTENT = "application/cloudevents+json; charset=utf-8"


def check_target(target: str, access: Access) -> None:
    """Make sure that notices can be sent to an address, or added to a file of notices.

    Raises:
        AddressForbidden: it is an address, and ``access`` is offline.
        OptionInvalid: it is an address of another kind than http and https.
        OutputExists: the file holds something else.
    """
    if is_web(target):
        access.check_address(public_path(target), target)
        return
    if "://" in target:
        raise OptionInvalid(
            f"notify is {public_path(target)}; it must be a file, or an http or https address"
        )
    path = Path(target)
    check_folder(path)
    if os.path.lexists(path):
        if path.is_symlink() or not path.is_file():
            raise OutputExists(f"{path}: is no plain file; choose another name")
        with writing(path):
            list(_notices_in(path, read_file(path)))


def send(notices: Sequence[Mapping[str, Any]], target: str, access: Access) -> None:
    """Send notices to an address, one request each, or add those that are not there to a file.

    Raises:
        NoticeFailed: a server refused one, or does not answer; the next run tries again.
    """
    if not is_web(target):
        _append(notices, Path(target))
        return
    access.check_address(public_path(target), target)
    opener = urllib.request.build_opener(_NoRedirects)
    for notice in notices:
        request = urllib.request.Request(target, json.dumps(notice).encode(), {"Content-Type": _CONTENT})
        try:
            with opener.open(request, timeout=TIMEOUT):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            raise NoticeFailed(
                f"{public_path(target)}: it refuses the notice (HTTP {error.code}); the next run tries again"
            ) from error
        except (OSError, HTTPException, ValueError) as error:
            raise NoticeFailed(
                f"{public_path(target)}: the server does not answer; the next run tries again"
            ) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A notice goes where the user said, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: it becomes an error."""


def notices_of(
    news: Mapping[str, Sequence[News]], first: Mapping[str, int], places: Sequence[PlaceView], monitor_id: str
) -> Iterator[dict[str, Any]]:
    """Yield the notice of each change of state.

    Args:
        news: by place, in order.
        first: how many of each place were told before; numbers the notices.
    """
    views = {view.place.name: {event.stored.number: event for event in view.events} for view in places}
    for place, ones in news.items():
        for number, one in enumerate(ones, start=first.get(place, 0) + 1):
            event = views[place][one.event]
            yield {
                "specversion": "1.0",
                "id": f"{place}/{number}",
                "source": f"{URN}{monitor_id}",
                "type": f"{_TYPE}{one.state}",
                "subject": event.id,
                **({"time": f"{PartialDate(one.date).last.isoformat()}T00:00:00Z"} if one.date else {}),
                "datacontenttype": "application/json",
                "data": {
                    "was": one.was,
                    "scene": one.scene,
                    **event.properties(),
                    "bbox": list(bbox_of(event.found.geometry)),
                },
            }


def _append(notices: Sequence[Mapping[str, Any]], path: Path) -> None:
    with writing(path):
        whole = read_file(path) if path.exists() else b""
        known = {(one["source"], one["id"]) for one in _notices_in(path, whole)}
        fresh = [one for one in notices if (one["source"], one["id"]) not in known]
        # One write for all: a kill leaves a part of a line at most, which the next run completes.
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in fresh).encode()
        if not text:
            return
        kept = whole[: whole.rfind(b"\n") + 1]
        with open(path, "r+b" if path.exists() else "xb", opener=open_regular) as file:
            file.truncate(len(kept))
            file.seek(len(kept))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def _notices_in(path: Path, content: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the notices of a file, without a part of a line that a killed run left; raises OutputExists."""
    for line in io.BytesIO(content):
        if not line.endswith(b"\n"):
            return
        try:
            notice = parsed_json(line)
            notice["source"], notice["id"], notice["specversion"]
        except (ValueError, TypeError, KeyError) as error:
            raise OutputExists(f"{path}: holds other things than notices; choose another name") from error
        yield notice
