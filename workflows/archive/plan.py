"""Plan a run: choose the model, and compare the archive with a table of pairs, by the keys of the pairs.

The key of a pair has hashes of its two scenes and of everything else that its report depends on. A key
is ``BEFORE-AFTER-SETTINGS``, so that a report can be recognised as current when its scenes are gone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import rscc
from rscc.folders import DEFAULT_MODEL
from rscc.model_card import ModelCard
from rscc.model_folder import available_models
from rscc.sequences import evenly
from tiling import TilingError
from workflows.addresses import public_path
from workflows.archive.folder import WHOLE, ArchiveFolder, Shard
from workflows.archive.index import DONE, FAILED, PENDING, Counts, Index, PairState
from workflows.archive.state import read_json
from workflows.errors import OptionInvalid
from workflows.identity import SceneIdentities, short_hash
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow
from workflows.printable import listed
from workflows.progress import Progress, report_progress
from workflows.report.record import decisive, hash_of, settings_record, text_in
from workflows.scene.resolution import chosen_model
from workflows.scenes import read_headers

LOOKED_AT, NAMED = 16, 3
"""Pairs whose headers are read at most, and that a warning names."""
# Pairs hashed at once.
_AT_ONCE = 100
_DESCRIPTION = ("number", "before", "after", "date_before", "date_after", "site", "footprint")


def model_for(
    rows: Sequence[PairRow], folder: ArchiveFolder, options: SceneOptions
) -> tuple[str, SceneOptions, str | None]:
    """Return the model for most pairs of a table, the options to run it with, and a warning about the others.

    An archive keeps the shipped model that it was begun with: another one would repeat all of its pairs.
    """
    reading, choices = options.for_others(), []
    for row in evenly(rows, LOOKED_AT):
        try:
            infos = read_headers(row.before, row.after, reading)
            choices.append((row.pair, *chosen_model(infos, None, options)))
        except (TilingError, OptionInvalid):
            continue  # the run says what is wrong with it
    counts = Counter(name for _, name, _ in choices)
    begun_with = text_in(read_json(folder.record), "model", "name")
    kept = next((card.name for card in available_models() if card.name == begun_with), None)
    chosen = kept or (counts.most_common(1)[0][0] if counts else DEFAULT_MODEL)
    own = [used for _, name, used in choices if name == chosen]
    others = [pair for pair, name, _ in choices if name != chosen]
    warning = None
    if others:
        names = ", ".join(sorted(counts.keys() - {chosen}))
        warning = (
            f"{len(others)} of the {len(choices)} pairs that were looked at do not have the pixel size of "
            f"{chosen}, which finds little there: {listed(others, NAMED)}; run them into an archive of their "
            f"own, with --model {names}"
        )
    return chosen, next((used for used in own if used.force), own[0] if own else options), warning


def settings_key(options: SceneOptions, card: ModelCard) -> str:
    """Return the hash of settings, model and version of rscc.

    The device is left out on purpose, though it changes the last bits: another machine may resume an archive.
    """
    return hash_of(
        {
            "settings": settings_record(options, card),
            "overlap": options.overlap_for(card),
            "dates": list(options.written("dates").values()),
            "model": decisive(card),
            "rscc": rscc.__version__,
        }
    )


def pair_key(row: PairRow, identities: SceneIdentities, settings: str) -> str:
    """Return the key of a pair; ``settings`` is the :func:`settings_key`."""
    scenes = (identities.of(scene)[:16] for scene in (row.before, row.after))
    facts = f"{row.date_before} {row.date_after} {settings}"
    if row.changes is not None:
        facts += f" {row.changes.partition('|')[2]} {identities.of(row.changes.partition('|')[0])}"
    return "-".join([*scenes, short_hash(facts)[:16]])


def keyed_rows(
    rows: Sequence[PairRow],
    index: Index,
    settings: str,
    shard: Shard = WHOLE,
    *,
    progress: Progress | None = None,
    missing: list[str] | None = None,
) -> Iterator[tuple[PairRow, str | None]]:
    """Yield each pair with its key; None for pairs of other shards.

    A report outlives its scenes: a pair whose scenes are gone has the key of its report if the rest is the
    same, and its id is added to ``missing``.

    Args:
        index: of the archive; it keeps the hashes of files.
        progress: called with the stage ``scenes``.
        missing: takes the ids of pairs that are done and whose scenes are gone.
    """
    number, count = shard
    identities = SceneIdentities(index, full=False)
    step = _AT_ONCE * count
    for place, row in enumerate(rows):
        if place % step == 0:
            report_progress(progress, "scenes", place, len(rows))
            own = rows[place + number - 1 : place + step : count]
            identities.look_at(scene for one in own for scene in (one.before, one.after))
        key = pair_key(row, identities, settings) if place % count == number - 1 else None
        if key is not None and not identities.are_there(row.before, row.after):
            made = index.one(row.pair)
            if made is not None and _is_same(row, key, made, identities):
                key = made.key
                if missing is not None:
                    missing.append(row.pair)
        yield row, key


def _is_same(row: PairRow, key: str, made: PairState, identities: SceneIdentities) -> bool:
    """Return whether a report has these settings and scenes; of a missing scene the name is compared."""
    if not made.key or made.state == FAILED:
        return False
    parts, made_parts = key.split("-"), made.key.split("-")
    names = ((row.before, made.before), (row.after, made.after))
    for (scene, made_name), part, made_part in zip(names, parts, made_parts, strict=False):
        is_there = identities.are_there(scene)
        if part != made_part if is_there else public_path(scene) != made_name:
            return False
    return parts[-1] == made_parts[-1]


@dataclass(frozen=True)
class Planned(Counts):
    """Number of pairs by state after a plan, and why pairs are pending again.

    Attributes:
        new: pairs that the archive did not have.
        changed: their scenes, dates or settings have changed.
        retried: they failed in an earlier run.
        removed: their reports were removed, or are damaged.
        kept: ids of pairs that stay done with an outdated report, because people have marked it.
    """

    new: int = 0
    changed: int = 0
    retried: int = 0
    removed: int = 0
    kept: tuple[str, ...] = ()


class Plan:
    """Compares an index with a table of pairs, row by row."""

    def __init__(self, index: Index, retry_failed: bool) -> None:
        names = ", ".join(("pair", *_DESCRIPTION, "state", "key", "wanted", "kind"))
        self._index, self._retry_failed = index, retry_failed
        self._known = {pair: values for pair, *values in index.select(f"SELECT {names} FROM pairs")}
        self._outdated: dict[str, tuple[dict[str, Any], str]] = {}
        self._rows: list[PairState] = []
        self._updates: list[tuple[str, dict[str, Any]]] = []
        self._reset: list[str] = []
        self.new, self.changed, self.retried = 0, 0, 0

    @property
    def outdated(self) -> list[str]:
        """Pairs that have a report made of other scenes, dates or settings."""
        return list(self._outdated)

    def compare(self, number: int, row: PairRow, key: str | None) -> None:
        """Compare one row of the table with the index."""
        footprint = None if row.footprint is None else row.footprint.wkb
        description = (
            number,
            public_path(row.before),
            public_path(row.after),
            row.date_before,
            row.date_after,
            row.site,
            footprint,
        )
        known = self._known.pop(row.pair, None)
        if known is None:
            self.new += key is not None
            self._rows.append(PairState(row.pair, *description, wanted=key))
            return
        *described, state, made, wanted, kind = known
        values = {} if tuple(described) == description else dict(zip(_DESCRIPTION, description, strict=True))
        if key is not None:
            values |= {} if wanted == key else {"wanted": key}
            if made == key:
                now = DONE if kind is None else FAILED
                if now == FAILED and self._retry_failed:
                    self.retried += 1
                    self._reset.append(row.pair)
                elif now != state:
                    values["state"] = now
            elif made or state == DONE:
                self.changed += 1
                if kind is not None:
                    self._reset.append(row.pair)
                else:
                    self._outdated[row.pair] = values, made
                    return
        elif wanted is not None:
            # Another run plans this pair, now or later: what it makes is done, by whatever key.
            values["wanted"] = None
        if values:
            self._updates.append((row.pair, values))

    def write(self, kept: set[str]) -> None:
        """Write the plan; pairs in ``kept`` stay done with their outdated reports."""
        for pair, (values, made) in self._outdated.items():
            if pair in kept:
                place: dict[str, Any] = {name: values[name] for name in ("number", "site") if name in values}
                self._updates.append((pair, {**place, "state": DONE, "wanted": made}))
            else:
                self._updates.append((pair, {**values, "state": PENDING}))
        self._updates += [(pair, {"number": None}) for pair in self._known]
        self._index.reset(self._reset)
        for pair, values in self._updates:
            self._index.update(pair, **values)
        self._index.put(self._rows)
        self._index.forget_lost()
