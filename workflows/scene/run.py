"""One pair of scenes from end to end: tiles, change map, polygons, words, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from rscc.structures import Caption
from rscc.text.sentences import map_name
from tiling import Band, Frame, NothingValid, write_probability
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.progress import Progress, device_of
from workflows.report.change import SCHEMA_VERSION, Change
from workflows.report.record import (
    determination_record,
    grid_record,
    ground_record,
    hash_of,
    model_record,
    pair_record,
    scene_record,
    settings_record,
    versions,
)
from workflows.report.report import ChangeReport
from workflows.report.summary import summary_of
from workflows.scene.captions import Description, describe_regions
from workflows.scene.carrier import OpenRun
from workflows.scene.detection import Detection, find_regions
from workflows.scene.events import Event, Events, Search, in_order, large, right_angled
from workflows.scene.facts import by_direction, describe_by_facts
from workflows.scene.land_cover import describe_by_cover
from workflows.scene.lone_changes import lone_changes
from workflows.scene.opening import Scene
from workflows.scene.refinement import open_segmenter, refine_events
from workflows.store.identity import SceneIdentities

if TYPE_CHECKING:
    from rscc.captioner import Captioner
    from rscc.models.shared.extraction import Segmenter


class SceneRun(OpenRun):
    """One trip over a pair of scenes: what it carries, and its steps."""

    @cached_property
    def segmenter(self) -> Segmenter | None:
        """What redraws the outlines; None without one.

        Raises:
            OptionInvalid, ExtraNotInstalled, WeightsNotFound: it cannot be loaded.
        """
        name = self.options.refine
        return None if name is None else open_segmenter(name, device_of(self.captioner))

    def regions(self, keep: Callable[[Band], None] | None = None) -> Detection:
        """Find where the pair changed; ``keep`` is given the change probability, from top to bottom."""
        # Before the work: what cannot be loaded is said at once.
        _ = self.segmenter, self.scout
        return find_regions(self, keep=keep)

    @contextmanager
    def keeping(self, path: Path | None) -> Iterator[Callable[[Band], None] | None]:
        """Yield what keeps the change probability at ``path``, complete at the end; None without a path.

        Raises:
            OptionInvalid: finished tiles are kept too, which lack what is below the threshold.
            ProbabilityNotWritable: the system refused.
        """
        if path is None:
            yield None
            return
        if self.cache is not None:
            raise OptionInvalid(
                "a tile cache holds only what changed, and the change probability all of it; keep one of them"
            )
        frame, record = Frame(self.pair.grid, self.pair.focus), self._record_of_search()
        self.probability = str(path)
        software = f"rscc {record['versions']['rscc']}"
        with write_probability(path, frame, self.grid.area, record, software) as keep:
            yield keep

    def events(self, detection: Detection) -> Events:
        """Make the regions the changes of a report: grouped, whole, redrawn, in order.

        Raises:
            NothingValid: no tile has data on both dates.
        """
        if detection.counts["blank"] == len(self.grid):
            before, after = self.infos
            raise NothingValid(
                f"{before.path} and {after.path}: every pixel is nodata on one date or the other"
            )
        events = Search(self).events(detection)
        events = replace(events, events=large(events.events, self.options))  # again where they are redrawn
        if self.segmenter is not None:
            events = refine_events(self, events, self.segmenter)
        changes = events.events
        if self.options.regularize:
            changes = right_angled(self.pair, changes, self.options.least_outline_for(self.pair.grid.gsd))
        if self.fact_maps is None:
            return replace(events, events=in_order(large(changes, self.options)))
        changes = by_direction(self, large(changes, self.options), events.others)
        alone = lone_changes(self, [*changes, *events.others])
        return replace(events, events=in_order([*changes, *alone]))

    def describe(self, events: Events) -> list[Description]:
        """Return the caption of every change, and its alternatives."""
        if self.fact_maps is not None:
            captions = describe_by_facts(self, events.events, events.others)
        elif self.options.ground and self.card.sentences == "land cover":
            captions = describe_by_cover(self, events.events)
        else:
            changes, others = ([event.regions for event in some] for some in (events.events, events.others))
            return describe_regions(self, changes, others)
        return [(caption, caption.alternatives) for caption in captions]

    def report(self, events: Events, descriptions: Sequence[Description]) -> ChangeReport:
        """Return the changes with their words, and the record of this run."""
        changes = [
            self._change(number, event, *description)
            for number, (event, description) in enumerate(zip(events.events, descriptions, strict=True), 1)
        ]
        finished = self.cache.remove if self.cache else None
        return ChangeReport(changes, self._record(events, changes), finished=finished)

    def _record_of_search(self) -> dict[str, Any]:
        """Return what is known of a run before it: what the probability of a pixel came from."""
        return {
            "inputs": {
                role: scene_record(info, taken)
                for role, info, taken in zip(("before", "after"), self.infos, self.dates, strict=True)
            },
            "model": model_record(self.card),
            "settings": settings_record(self.options, self.card),
            "tiling": grid_record(self.pair, self.grid),
            "versions": versions(),
            "started": self.started.isoformat(timespec="seconds"),
        }

    def _record(self, events: Events, changes: Sequence[Change]) -> dict[str, Any]:
        scenes, search = SceneIdentities({}, full=True), self._record_of_search()
        # A part of a scene may be a hundredth of its bytes: nothing reads the rest.
        whole = self.options.bounds is None
        return {
            "schema": SCHEMA_VERSION,
            "summary": summary_of(changes).as_dict(),
            "inputs": {
                role: {**scene, "identity": scenes.on_disk(info.path) if whole else None}
                for (role, scene), info in zip(search["inputs"].items(), self.infos, strict=True)
            },
            **determination_record(self.dates[1]),
            "model": search["model"],
            "settings": search["settings"],
            "settings_sha256": hash_of(search["settings"]),
            "tiling": {**search["tiling"], **events.counts},
            "probability": self.probability,
            "ground": ground_record(self.pair),
            **pair_record(self.pair),
            "refinement": events.refinement,
            "land_cover": self.land_cover,
            "memory": self.memory.as_dict(),
            "resumed_tiles": self.cache.resumed_tiles if self.cache else 0,
            "warnings": [*self.warnings, *events.warnings, *self.sizes.warnings],
            "versions": search["versions"],
            "started": search["started"],
            "seconds": round(time.perf_counter() - self.clock, 2),
        }

    def _change(self, number: int, event: Event, caption: Caption, alternatives: tuple[str, ...]) -> Change:
        before, after = (PurePath(info.path).name for info in self.infos)
        return Change(
            id=number,
            caption=caption.text,
            alternatives=alternatives,
            score=float(caption.score),
            date_before=self.dates[0].value,
            date_after=self.dates[1].value,
            before=before,
            after=after,
            model=self.card.name,
            model_version=self.card.version,
            **event.measured(self.ground),
            **_stated(caption),
        )


def _stated(caption: Caption) -> dict[str, Any]:
    """Return the fields of a change that its facts fill; none for a caption without."""
    facts = getattr(caption, "facts", None)
    if facts is None:
        return {}
    named = {"came": facts.came, "gone": facts.gone, "before_cover": facts.before}
    return {
        "direction": facts.direction,
        **{field: tuple(map(map_name, names)) for field, names in named.items()},
        "count_sure": facts.sure,
        "changed_m2": facts.area_m2,
        "changed_back_m2": facts.back_m2,
        "changed_at_least": facts.at_least,
        "caption_confident": getattr(caption, "confident", True),
    }


def caption_scene(
    before: Scene,
    after: Scene,
    captioner: Captioner | None = None,
    options: SceneOptions | None = None,
    progress: Progress | None = None,
    *,
    probability: Path | None = None,
) -> ChangeReport:
    """Find what changed between two scenes and say it in words; memory does not grow with the scene.

    The scenes are given by their names, or as :func:`tiling.describe` returned them. Without a captioner the
    default model is loaded; whoever has many pairs loads one captioner for all.

    ``progress`` is called as ``progress(stage, done, total)`` with the stages ``tiles`` and
    ``captions``, and ``outlines`` with ``refine``.
    With ``probability`` the change probability is kept at that path, a Cloud Optimized GeoTIFF.

    Raises:
        ProbabilityNotWritable: the change probability cannot be kept.
        TilingError: a scene cannot be read, or the two cannot be compared; the message names the file.
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
        RsccError: the model cannot run here.
    """
    if captioner is None:
        from rscc.captioner import Captioner

        captioner = Captioner.load()
    with (
        SceneRun.open(before, after, captioner, options, progress) as run,
        run.keeping(probability) as keep,
    ):
        events = run.events(run.regions(keep))
        return run.report(events, run.describe(events))
