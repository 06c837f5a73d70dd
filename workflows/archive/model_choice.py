"""Choose the model of an archive by the pixel size of its scenes, where none is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rscc.folders import DEFAULT_MODEL
from rscc.model_folder import available_models
from rscc.sequences import evenly
from tiling import TilingError
from workflows.archive.folder import ArchiveFolder
from workflows.archive.state import read_json
from workflows.errors import OptionInvalid
from workflows.options import SceneOptions
from workflows.printable import listed
from workflows.scene.resolution import chosen_model
from workflows.scenes import read_headers

if TYPE_CHECKING:
    from workflows.pairs.rows import PairRow

LOOKED_AT, NAMED = 16, 3
"""Pairs whose headers are read at most, and that a warning names."""


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
    kept = _begun_with(folder)
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


def _begun_with(folder: ArchiveFolder) -> str | None:
    model = read_json(folder.record).get("model")
    name = model.get("name") if isinstance(model, dict) else None
    return next((card.name for card in available_models() if card.name == name), None)
