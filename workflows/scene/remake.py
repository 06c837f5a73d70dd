"""Outline, group and describe again from kept maps, with other settings and without the network."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import shapely
from shapely.geometry import MultiPolygon, Polygon

import rscc
from rscc.structures import Caption
from workflows.errors import OptionInvalid, ReportInvalid
from workflows.options import MADE_BY, SceneOptions
from workflows.printable import counted, printable
from workflows.report.change import GIVEN, SCHEMA_VERSION, Change
from workflows.report.context import ContextLayers, with_context
from workflows.report.edited import BY_HAND
from workflows.report.geojson import rounded
from workflows.report.record import Run, hash_of, of_scenes, text_in
from workflows.report.report import Report
from workflows.report.review import REVIEW_FIELDS
from workflows.report.scenes import open_scenes
from workflows.report.summary import summary_of
from workflows.scene.found import Changes, in_order, large
from workflows.scene.given.judge import given_changes, judged_of, with_unjudged
from workflows.scene.given.layer import GivenOutline
from workflows.scene.group import group
from workflows.scene.maps import ChangeMaps, read_maps
from workflows.scene.network.models import RULED_OUT
from workflows.scene.outline import outline
from workflows.scene.result import changes_of
from workflows.scene.words.facts import describe_by_facts
from workflows.scene.words.land_cover import describe_by_cover
from workflows.scene.words.location import ground_of


def remake(report: Report, options: Any, maps: Path | None = None) -> Report:
    """Return a report as a run with other settings would have made it, with full sentences.

    Changes that a person drew stay. A verdict stays with a change whose outlines are as they were. Context
    layers are not kept in a report, so they are given again.

    Args:
        options: has ``threshold``, ``min_area``, ``group_distance`` and ``context``; None leaves a setting.
        maps: the folder of the maps; None: where the report says, or beside the report.

    Raises:
        OptionInvalid: no maps were kept, or the sentences are by the decoder, which needs the scenes.
        ReportInvalid: the report is damaged, or the maps are of another run.
        ContextInvalid: a context layer cannot be read.
    """
    run, name, layers = report.run, printable(report.source), ContextLayers(options.context or ())
    chosen = _options(run, name, options)
    kept = maps_of_report(report, maps)
    if kept is None:
        raise OptionInvalid(
            f"{name}: its maps were not kept; caption the scenes again with the new settings, or with "
            "--keep-maps DIR"
        )
    with closing(kept):
        assert chosen.threshold is not None
        if run["settings"].get("fast") and chosen.threshold < _scouted(kept):
            raise OptionInvalid(
                f"{name}: made with --fast, its maps lack probabilities below {_scouted(kept):g}; caption "
                "the scenes again with the new settings"
            )
        regions = outline(kept.bands(), chosen.threshold, kept.frame.grid, chosen)
        if "given" in run:
            changes = given_changes(_given_in(report), regions, kept, chosen)
        else:
            changes = group(regions, kept, chosen)
        ground = ground_of(kept.frame)
        captions = with_unjudged(changes, _describe(judged_of(changes), kept, report))
        made = with_context(changes_of(changes.found, captions, ground, kept.about, chosen), layers)
    drawn = [change for change in report.changes if change.model == BY_HAND]
    made, lost = _with_reviews(made, report.changes)
    made = [
        replace(change, id=number)
        for number, change in enumerate(in_order([*made, *large(drawn, chosen)]), 1)
    ]
    warnings = []
    if not layers and any(change.context for change in report.changes):
        warnings.append("the changes name no areas of context layers any more; give --context again")
    if lost:
        warnings.append(
            f"{counted(lost, 'reviewed change')} have other outlines now; their verdicts are lost"
        )
    return Report(made, _record(run, chosen, made, warnings), path=report.path)


def _given_in(report: Report) -> list[GivenOutline]:
    """Return the outlines that were given for a report; those that it joined stay one."""
    return [
        GivenOutline(change.geometry, change.source_id, change.attributes)
        for change in report.changes
        if change.outline_of == GIVEN
    ]


def maps_of_report(report: Report, folder: Path | None = None) -> ChangeMaps | None:
    """Open the maps of a report: in ``folder``, where the report says, or beside it; None without any.

    Raises:
        ReportInvalid: they are of another run.
    """
    named = text_in(report.run, "maps")
    if folder is None and named:
        beside = [] if report.path is None else [report.path.parent / PurePath(named).name]
        folder = next((place for place in (Path(named), *beside) if os.path.isdir(place)), None)
    if folder is None:
        return None
    maps = read_maps(folder)
    if not _is_of_run(maps.about, report.run):
        maps.close()
        raise ReportInvalid(f"{printable(report.source)}: {printable(folder)} holds the maps of another run")
    return maps


def _scouted(maps: ChangeMaps) -> float:
    """Return the probability below which the scout of --fast has ruled tiles out."""
    threshold = maps.about["settings"].get("threshold")
    return min(RULED_OUT, threshold) if isinstance(threshold, int | float) else RULED_OUT


def _is_of_run(about: Mapping[str, Any], run: Run) -> bool:
    """Return whether maps are of this run; other outlines may be made of them."""
    if any(about.get(name) != run.get(name) for name in ("model", "versions")):
        return False
    settings = [
        {name: value for name, value in one["settings"].items() if name not in (*MADE_BY, "regularize")}
        for one in (about, run)
    ]
    return (
        all(of_scenes(about, name) == of_scenes(run, name) for name in ("path", "date"))
        and hash_of(settings[0]) == hash_of(settings[1])
        and all(run["tiling"].get(name) == value for name, value in about["tiling"].items())
    )


def _options(run: Run, name: str, new: Any) -> SceneOptions:
    """Return the settings of a report with the new ones."""
    old: dict[str, Any] = {setting: run["settings"].get(setting) for setting in MADE_BY}
    regular = run["settings"].get("regularize")
    numbers = all(value is None or type(value) in (int, float) for value in old.values())
    if not numbers or old["threshold"] is None or type(regular) is not bool:
        raise ReportInvalid(f"{name}: a setting is damaged; give a report that rscc wrote")
    chosen = {setting: getattr(new, setting) for setting in MADE_BY}
    changed = {setting: value for setting, value in chosen.items() if value is not None}
    try:
        return replace(SceneOptions(**old, regularize=regular), **changed)
    except OptionInvalid as error:
        if changed:
            raise
        raise ReportInvalid(f"{name}: a setting is damaged ({error})") from error


def _describe(changes: Changes, maps: ChangeMaps, report: Report) -> Sequence[Caption]:
    ground = ground_of(maps.frame)
    if maps.rules is not None:
        return describe_by_facts(changes, maps, ground)
    if report.run.get("land_cover") is None:
        raise OptionInvalid(
            f"{printable(report.source)}: its sentences are by the decoder, which has to see the "
            "scenes; caption the scenes again with the new settings"
        )
    is_box = report.run["settings"].get("bounds") is not None
    with open_scenes(report) as pair:
        return describe_by_cover(changes.found, pair, ground, maps.seen, is_box=is_box)[0]


def _with_reviews(made: Sequence[Change], earlier: Sequence[Change]) -> tuple[list[Change], int]:
    """Return changes with the verdicts on those of the same outlines, and how many verdicts are lost."""
    reviewed = {
        _key(change.geometry): {name: getattr(change, name) for name in REVIEW_FIELDS}
        for change in earlier
        if change.review_status is not None and change.model != BY_HAND
    }
    changes = [replace(change, **reviewed.pop(_key(change.geometry), {})) for change in made]
    return changes, len(reviewed)


def _key(geometry: Polygon | MultiPolygon) -> bytes:
    """Return the same for the same outlines, whatever the order of their corners."""
    return bytes(shapely.to_wkb(shapely.normalize(rounded(geometry))))


def _record(
    run: Mapping[str, Any], options: SceneOptions, changes: Sequence[Change], warnings: Sequence[str]
) -> dict[str, Any]:
    settings = {**run["settings"], **{name: getattr(options, name) for name in MADE_BY}}
    return {
        **run,
        "schema": SCHEMA_VERSION,
        "summary": summary_of(changes, run).as_dict(),
        "settings": settings,
        "settings_sha256": hash_of(settings),
        "remade": {
            "rscc": rscc.__version__,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "warnings": list(warnings),
        },
    }
