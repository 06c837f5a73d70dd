"""Two scenes from end to end: detect, outline, group, describe, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rasterio

from rscc.devices import keep_freed_memory
from rscc.files import temporary_folder
from rscc.structures import Caption
from tiling import ChangeRegion, NothingValid
from workflows.identity import SceneIdentities
from workflows.options import SceneOptions
from workflows.progress import Progress
from workflows.report.change import SCHEMA_VERSION
from workflows.report.context import ContextLayers, with_context
from workflows.report.record import determination_record, ground_record, hash_of, pair_record
from workflows.report.report import Report
from workflows.report.summary import summary_of
from workflows.scene.evidence import scene_familiarity
from workflows.scene.found import Changes
from workflows.scene.given.judge import given_changes, judged_of, unjudged_warnings, with_unjudged
from workflows.scene.group import group
from workflows.scene.maps import ChangeMaps
from workflows.scene.network.detect import detect, maps_of
from workflows.scene.network.map_folder import compress_maps, remove_maps
from workflows.scene.network.models import Network
from workflows.scene.opening import OpenPair, open_pair
from workflows.scene.outline import outline
from workflows.scene.result import changes_of
from workflows.scene.visibility.record import haze_warnings, not_judged
from workflows.scene.words.decoder import describe_by_decoder
from workflows.scene.words.facts import describe_by_facts
from workflows.scene.words.land_cover import describe_by_cover
from workflows.scenes import Scene

if TYPE_CHECKING:
    from rscc.captioner import Captioner


def caption_scene(
    before: Scene,
    after: Scene,
    captioner: Captioner,
    options: SceneOptions | None = None,
    progress: Progress | None = None,
    *,
    resume: Path | None = None,
) -> Report:
    """Find what changed between two scenes and describe it; memory does not grow with the height of a scene.

    Args:
        before, after: names of the scenes, or their headers as :func:`tiling.describe` returns them.
        progress: called as ``progress(stage, done, total)`` with the stages ``tiles`` and ``captions``.
        resume: folder for the maps where ``options.keep_maps`` is None. The same call after a kill continues
            there; writing the report removes it. Without it the maps are in a temporary folder.

    Raises:
        TilingError: a scene cannot be read, or the two cannot be compared; the message names the file.
        TooCoarse: a scene is coarser than the model is meant for, and ``options.force`` is not set.
        ContextInvalid, GivenInvalid: a context layer, or the layer of given changes, cannot be read.
        MapsUnusable, MapsBusy: the folder for the maps holds something else, or another run uses it.
        RsccError: the model cannot run here.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    options = options or SceneOptions()
    layers = ContextLayers(options.context)
    if options.memory is None:
        keep_freed_memory()  # before the first threads: each keeps the memory arena that it starts with
    with (
        rasterio.Env(),  # once, not for each outline that is rasterized
        open_pair(before, after, captioner.card, options) as opened,
        _identified(opened) as identities,
        detected(opened, captioner, progress, resume=resume) as (maps, regions, network),
    ):
        hidden = not_judged(maps, opened.ground)
        if opened.given is None:
            _check_valid(opened, maps, hidden["by"])
            changes = group(regions, maps, options)
        else:
            changes = given_changes(opened.given.outlines, regions, maps, options)
        captions, land_cover = described(judged_of(changes), opened, maps, network, progress)
        captions = with_unjudged(changes, captions)
        if options.keep_maps is not None:
            compress_maps(maps)
        record = opened.record()
        found = with_context(changes_of(changes.found, captions, opened.ground, record, options), layers)
        counts, familiarity = maps.counts(), scene_familiarity(maps)
        record = {
            "schema": SCHEMA_VERSION,
            "summary": {},
            **record,
            "inputs": {
                role: {**scene, "identity": identity}
                for (role, scene), identity in zip(record["inputs"].items(), identities(), strict=True)
            },
            **determination_record(opened.dates[1]),
            "settings_sha256": hash_of(record["settings"]),
            "tiling": record["tiling"] | {name: counts[name] for name in ("blank", "identical", "ruled_out")},
            "maps": None if options.keep_maps is None else str(options.keep_maps),
            "ground": ground_record(opened.pair),
            "not_judged": hidden,
            **pair_record(opened.pair),
            "familiarity": None if familiarity is None else round(familiarity, 4),
            "land_cover": land_cover,
            "memory": network.memory.as_dict(),
            "resumed_tiles": maps.resumed_tiles,
            "warnings": [
                *opened.warnings,
                *unjudged_warnings(changes, opened.given),
                *haze_warnings(maps, [info.path for info in opened.infos]),
                *network.batches.warnings,
            ],
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 2),
        }
        record["summary"] = summary_of(found, record).as_dict()
    temporary = resume if options.keep_maps is None else None
    return Report(found, record, finished=None if temporary is None else partial(remove_maps, temporary))


@contextmanager
def detected(
    opened: OpenPair,
    captioner: Captioner,
    progress: Progress | None = None,
    *,
    resume: Path | None = None,
) -> Iterator[tuple[ChangeMaps, list[ChangeRegion], Network]]:
    """Detect the changes of a pair and outline them; yield the maps, the regions and the network."""
    options = opened.options
    with ExitStack() as stack:
        folder = options.keep_maps or resume or stack.enter_context(temporary_folder())
        replace_others = options.keep_maps is None
        maps, network = stack.enter_context(maps_of(opened, captioner, folder, replace_others=replace_others))
        bands = detect(opened, network, maps, progress)
        regions = outline(bands, options.threshold_for(opened.card), opened.pair.grid, options)
        yield maps, regions, network


def _check_valid(opened: OpenPair, maps: ChangeMaps, hidden_by: Mapping[str, float]) -> None:
    counts = maps.counts()
    is_seen = any(area for name, area in hidden_by.items() if name != "fill")
    if counts["blank"] + counts["skipped"] == counts["tiles"] and not is_seen:
        before, after = opened.infos
        raise NothingValid(f"{before.path} and {after.path}: every pixel is nodata on one date or the other")


def described(
    changes: Changes, opened: OpenPair, maps: ChangeMaps, network: Network, progress: Progress | None
) -> tuple[Sequence[Caption], dict[str, Any] | None]:
    """Return the caption of every change, and what land cover was measured by."""
    if maps.rules is not None:
        return describe_by_facts(changes, maps, opened.ground, progress), None
    options = opened.options
    if options.ground and opened.card.sentences == "land cover":
        is_box = options.box is not None
        return describe_by_cover(
            changes.found, opened.pair, opened.ground, maps.seen, is_box=is_box, progress=progress
        )
    found, others = ([change.pixels for change in some] for some in (changes.found, changes.others))
    return describe_by_decoder(found, others, opened.pair, network, progress, maps.seen), None


@contextmanager
def _identified(opened: OpenPair) -> Iterator[Callable[[], list[str | None]]]:
    """Hash the scenes in a thread beside the block; yield what waits for the hashes.

    With a box there are none, since the rest of the bytes is not read.
    """
    scenes = SceneIdentities({}, full=True)
    paths = [info.path for info in opened.infos] if opened.options.box is None else []
    with ThreadPoolExecutor(1, thread_name_prefix="hash") as pool:
        hashes = pool.submit(lambda: [scenes.on_disk(path) for path in paths] or [None, None])
        try:
            yield hashes.result
        except BaseException:
            scenes.stop()
            raise
