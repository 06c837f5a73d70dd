"""The changes of a report made anew from the change probability that was kept, without scenes and model.

Words are of outlines: a change whose outline is as it was keeps them, and what a person said of it. For
another the model would have to look at the scenes, so it says no more than that something changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, Polygon

import rscc
from rscc.text.facts import SOMETHING
from tiling import KeptProbability, open_probability
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.options import MADE_BY, SceneOptions
from workflows.report.change import SCHEMA_VERSION, Change
from workflows.report.edited import BY_HAND
from workflows.report.geojson import rounded
from workflows.report.record import hash_of, of_scenes, scenes_in, text_in
from workflows.report.report import ChangeReport
from workflows.report.summary import summary_of
from workflows.scene.detection import traced
from workflows.scene.events import Event, Grouping, cut_warning, in_order, large, right_angled
from workflows.scene.layout import ground_of
from workflows.texts import shown

_ANOTHER = "give the report of the run that kept it"
# What a change says of which nothing is known but its outline.
_WORDLESS: dict[str, Any] = {
    "caption": SOMETHING,
    "alternatives": (),
    "score": 0.0,
    "caption_confident": False,
}


def remade(
    report: ChangeReport,
    source: Path,
    settings: Mapping[str, float | None],
    raster: str | Path | None = None,
) -> ChangeReport:
    """Return a report with the changes that a run with other settings would have found.

    Args:
        source: the file of the report.
        settings: those of :data:`MADE_BY` that change; None, or none at all: it stays.
        raster: the change probability; None: where the report says, or beside the report.

    Raises:
        OptionInvalid: none was kept, or the outlines were redrawn by a segmenter.
        ReportInvalid: the report is damaged, or the raster is of another run.
        TilingError: the raster cannot be read.
    """
    run = report.run
    if run.get("refinement") is not None:
        raise OptionInvalid(
            f"{shown(source)}: its outlines were redrawn by --refine, from the scenes; caption them anew"
        )
    options = _options(run, source, settings)
    with open_probability(_found(run, source) if raster is None else raster) as kept:
        if not _same_run(kept.about, run):
            raise ReportInvalid(
                f"{shown(source)}: {shown(kept.shown)} is the change probability of another run; {_ANOTHER}"
            )
        events, warnings = _events(kept, options)
        ground = ground_of(kept.frame)
        # With a box, what directions parted from a change and lies outside is not in the report.
        first = [] if run["settings"].get("bounds") is None else _events(kept, _options(run, source, {}))[0]
    drawn = [one for one in report.changes if one.model == BY_HAND]
    found = [one for one in report.changes if one.model != BY_HAND]
    before = [one for one in found if one.outline_of == "change"]
    blank = {**_WORDLESS, **_about(run, source)}
    # New roads and clearings are no matter of the change probability, nor is what a person drew.
    changes = drawn + large((one for one in found if one.outline_of != "change"), options)
    regrouped = options.group_distance != run["settings"].get("group_distance")
    earlier = _Earlier(before, first, parted=not regrouped)
    for event in events:
        changes += earlier.of(event) or [Change(id=0, **blank, **event.measured(ground))]
    still_there = {one.id for one in changes}
    kept_words = sum(one.id > 0 for one in changes)
    changes = [replace(one, id=number) for number, one in enumerate(in_order(changes), 1)]
    if kept_words < len(changes):
        warnings.append(
            f"{len(changes) - kept_words} of {len(changes)} changes have other outlines than before and "
            "say only that something changed; caption the scenes anew for their words"
        )
    if lost := sum(one.review_status is not None and one.id not in still_there for one in report.changes):
        are = "change is" if lost == 1 else "changes are"
        warnings.append(f"{lost} reviewed {are} not there as before; what reviewers said of such is left out")
    return ChangeReport(changes, _record(run, options, changes, warnings, kept_words))


def _options(run: Mapping[str, Any], source: Path, settings: Mapping[str, float | None]) -> SceneOptions:
    told: dict[str, Any] = {name: run["settings"].get(name) for name in (*MADE_BY, "simplify")}
    regular = run["settings"].get("regularize")
    numbers = all(value is None or type(value) in (int, float) for value in told.values())
    try:
        if not numbers or None in (told["threshold"], told["simplify"]) or type(regular) is not bool:
            raise OptionInvalid("a value is none that it can have")
        known = SceneOptions(**told, regularize=regular)
    except OptionInvalid as error:
        raise ReportInvalid(f"{shown(source)}: a setting is damaged ({error}); {_ANOTHER}") from error
    changed: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    return replace(known, **changed)


def _found(run: Mapping[str, Any], source: Path) -> Path:
    """Return where the change probability of a report is."""
    named = text_in(run, "probability")
    if not named:
        raise OptionInvalid(
            f"{shown(source)}: the run kept no change probability; caption the scenes anew, with "
            "--probability FILE or with the settings that you want"
        )
    places = [Path(named), source.parent / PurePath(named).name]
    for place in places:
        if place.is_file():
            return place
    raise OptionInvalid(
        f"{shown(source)}: its change probability, {shown(named)}, is neither there nor beside the report; "
        "say where it is with --probability"
    )


def _same_run(about: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Return whether a raster says of its run what a report says of its own."""
    alike = all(about.get(name) == run.get(name) for name in ("started", "model"))
    return alike and of_scenes(about, "path") == of_scenes(run, "path")


def _events(kept: KeptProbability, options: SceneOptions) -> tuple[list[Event], list[str]]:
    """Return the changes of a raster, and what is not as it should be."""
    frame = kept.frame
    assert options.threshold is not None
    grouping = Grouping(frame, options)
    found, _ = grouping.events_of(traced(kept.bands(), options.threshold, frame.grid, options))
    found = large(found, options)
    warnings = [cut_warning(event) for event in found if grouping.leaves(event, kept.area)]
    if options.regularize:
        found = right_angled(frame, found, options.least_outline_for(frame.grid.gsd))
    return large(found, options), warnings


class _Earlier:
    """Finds the changes of a report by their outlines: several, where directions ``parted`` what is near.

    ``events`` are those of the report's own settings, as far as some of their outlines were left out of it.
    """

    def __init__(self, changes: Sequence[Change], events: Sequence[Event], *, parted: bool) -> None:
        self._parted = parted
        self._left = dict(enumerate(changes, 1))
        self._keys = {number: _keys(change.geometry) for number, change in self._left.items()}
        self._owner = {key: number for number, keys in self._keys.items() for key in keys}
        all_keys = [_keys(event.geometry) for event in events if parted]
        self._left_out = set().union(*all_keys) - self._owner.keys()

    def of(self, event: Event) -> list[Change]:
        """Return the changes whose outlines together are those of an event; none where there are none."""
        keys = _keys(event.geometry) - self._left_out
        numbers = {self._owner.get(key, 0) for key in keys}
        alike = 0 not in numbers and keys == set().union(*(self._keys[number] for number in numbers))
        if not alike or (len(numbers) > 1 and not self._parted):
            return []
        return [self._left.pop(number) for number in sorted(numbers)]


def _keys(geometry: Polygon | MultiPolygon) -> set[bytes]:
    """Return the same for the same outlines, whatever the order of their corners."""
    parts = shapely.get_parts(shapely.normalize(rounded(geometry)))
    return {shapely.to_wkb(shapely.normalize(part)) for part in parts}


def _about(run: Mapping[str, Any], source: Path) -> dict[str, Any]:
    """Return what all changes of a report have in common."""
    scenes = scenes_in(run)
    model = {"model": text_in(run, "model", "name"), "model_version": text_in(run, "model", "version")}
    if None in (scenes["before"], scenes["after"], *model.values()):
        raise ReportInvalid(f"{shown(source)}: it does not say which scenes and model it is of; {_ANOTHER}")
    return {**scenes, **model}


def _record(
    run: Mapping[str, Any],
    options: SceneOptions,
    changes: Sequence[Change],
    warnings: Sequence[str],
    kept_words: int,
) -> dict[str, Any]:
    settings = {**run["settings"], **{name: getattr(options, name) for name in MADE_BY}}
    earlier, told = run.get("remade"), run.get("warnings")
    old = earlier.get("warnings") if isinstance(earlier, dict) else None
    first = [one for one in told if one not in (old or [])] if isinstance(told, list) else []
    return {
        **run,
        "schema": SCHEMA_VERSION,
        "summary": summary_of(changes).as_dict(),
        "settings": settings,
        "settings_sha256": hash_of(settings),
        "warnings": [*first, *warnings],
        "remade": {
            "rscc": rscc.__version__,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "kept_words": kept_words,
            "warnings": list(warnings),
        },
    }
