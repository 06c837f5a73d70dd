"""An Atom feed (RFC 4287) of confirmed and ended events, with their outlines as GeoRSS-Simple."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from tiling import open_regular
from workflows.dates import PartialDate
from workflows.errors import OutputExists
from workflows.files import check_free, write_together
from workflows.monitor.view import Event
from workflows.printable import printable
from workflows.report.geojson import parts_of

URN = "urn:rscc:monitor:"
_ATOM, _GEORSS = "http://www.w3.org/2005/Atom", "http://www.georss.org/georss"
_TOLD = ("confirmed", "ended")
_EVER = "0001-01-01T00:00:00Z"


def check_feed(path: Path, monitor_id: str | None) -> None:
    """Make sure that a feed can be written, and replaces nothing but the feed of the same monitor."""
    check_free((path,), overwrite=True)
    if not path.exists():
        return
    own = None if monitor_id is None else f"<id>{URN}{monitor_id}</id>".encode()
    head = b""
    with suppress(OSError), open(path, "rb", opener=open_regular) as file:  # a pipe is no feed
        head = file.read(4096)
    if own is None or own not in head:
        raise OutputExists(f"{path}: exists already, and is no feed of this monitor; choose another name")


def write_feed(path: Path, events: Sequence[Event], monitor_id: str, name: str) -> None:
    """Write the feed; the newest change of state comes first. The same events make the same bytes."""
    # GDAL and feed readers find these prefixes by their names.
    ElementTree.register_namespace("", _ATOM)
    ElementTree.register_namespace("georss", _GEORSS)
    told = [event for event in events if event.state in _TOLD]
    told.sort(key=lambda event: (_updated(event), event.stored.number), reverse=True)
    feed = ElementTree.Element(f"{{{_ATOM}}}feed")
    _add(feed, "id", f"{URN}{monitor_id}")
    _add(feed, "title", f"Events of {name}")
    _add(feed, "updated", _updated(told[0]) if told else _EVER)
    _add(_add(feed, "author"), "name", "rscc")
    for event in told:
        entry = _add(feed, "entry")
        _add(entry, "id", f"{URN}{monitor_id}:{event.id}")
        _add(entry, "title", event.caption)
        _add(entry, "updated", _updated(event))
        _add(entry, "category").set("term", event.state)
        _add(
            entry,
            "summary",
            f"{event.state}; {event.found.kind}; {event.found.area_m2:.0f} m2; {event.place}",
        )
        largest = max(parts_of(event.found.geometry), key=lambda part: part.area)
        corners = " ".join(f"{y:.7f} {x:.7f}" for x, y, *_ in largest.exterior.coords)
        ElementTree.SubElement(entry, f"{{{_GEORSS}}}polygon").text = corners
    ElementTree.indent(feed)
    write_together({path: [ElementTree.tostring(feed, encoding="unicode", xml_declaration=False), "\n"]})


def _add(parent: ElementTree.Element, tag: str, text: str | None = None) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, f"{{{_ATOM}}}{tag}")
    if text is not None:
        child.text = printable(text)  # XML has no control characters, not even escaped
    return child


def _updated(event: Event) -> str:
    """Return the last day of the date of the last change of state."""
    turns = event.history.turns
    return f"{PartialDate(turns[-1].date).last.isoformat()}T00:00:00Z" if turns else _EVER
