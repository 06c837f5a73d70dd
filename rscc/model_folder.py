"""Model folders: what a trained captioner is on disk, and the models that this installation knows.

A model folder holds ``model.safetensors``, ``vocabulary.json``, ``CARD.md`` for people and ``model.json``
with the card, the model's sizes, the beginnings and runs of words of "no change" sentences and the SHA-256
of the others. One that tells facts has ``facts.safetensors`` and ``facts.json`` besides.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rscc.config import MOST_TILE, SENTENCES, ModelConfig, build, check_support
from rscc.errors import ConfigInvalid, ModelFolderInvalid, ModelNotFound, first_line
from rscc.files import atomic_write, parsed_json
from rscc.inference.calibration import Calibration
from rscc.settings import check, check_choice, of_type
from rscc.shipped import SHIPPED

if TYPE_CHECKING:
    from rscc.inference.facts import FactModel
    from rscc.models.shared.captioner import ChangeCaptioner

_FORMAT = 1
FACTS = frozenset({"facts.safetensors", "facts.json"})
"""Members of a folder that tells facts."""

# Where polygons come from, by the ``localiser`` of a card.
LOCALISATIONS = {
    "change_head": "change head trained on change masks",
    "attention": "attention of the caption's words (the decoder's cross-attention), not trained on masks",
    "difference": "difference of both dates, thresholded and clustered (DAVIR, Eq. 2), not trained on masks",
}


@dataclass(frozen=True)
class ModelCard:
    """What a user must know of a trained model.

    Attributes:
        name, version: of the model.
        description: one line.
        paper: key of the model it is an instance of.
        weights_sha256: of ``model.safetensors``.
        facts_sha256: of what it tells facts by; empty where it tells none.
        gsd: metres per pixel that scenes are resampled to.
        gsd_range: finest and coarsest native metres per pixel it is meant for.
        tile_size: side of its input in pixels.
        threshold: change probability from which a pixel is changed, chosen on the validation split.
        changed_threshold: the same for P(anything changed) of a tile.
        localisation: where the polygons come from, in words.
        licence: of the weights, and what the training data ask for.
        data: training and validation data.
        trained: command, machine and time.
        limits: what it cannot do, one sentence each.
        scores: validation scores by name.
        localiser: where the polygons come from, a key of :data:`LOCALISATIONS`.
        parts: beginnings of the names of the weights that the folder holds, of a model that is no captioner
            yet but a start for one; empty: all of them.
        calibration: what P(changed) and the captions' scores are mapped by; None: they are the network's own.
        draws: 0; sentences that earlier versions let choose.
        support: see :class:`~rscc.config.CardConfig`.
        kinds: validation scores by kind of change, see :func:`rscc.evaluation.scoring.score_kinds`.
        cost: time and energy that it takes.
        sentences: what they are made of where it has no fact heads, a key of :data:`rscc.config.SENTENCES`.
        search_size: side in pixels of the tiles that a scene is searched in, where its change map was found
            to be as good in them; 0 is ``tile_size``. Larger tiles overlap less.
        position_size: side in pixels of a position of its features; the sides of tiles are multiples.
        ranges: how large activations of trunk and change head get, for 8-bit integers, see
            :func:`rscc.inference.int8.activation_ranges`; empty where that was not measured.
    """

    name: str
    version: str
    description: str
    paper: str
    weights_sha256: str
    gsd: float
    gsd_range: tuple[float, ...]
    tile_size: int
    threshold: float
    changed_threshold: float
    localisation: str
    licence: str
    data: str
    trained: str
    limits: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    localiser: str = "change_head"
    parts: tuple[str, ...] = ()
    calibration: Calibration | None = None
    draws: int = 0
    support: int = 0
    kinds: dict[str, dict[str, float]] = field(default_factory=dict)
    cost: str = ""
    facts_sha256: str = ""
    sentences: str = "decoder"
    search_size: int = 0
    position_size: int = 16
    ranges: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("card.localiser", self.localiser, LOCALISATIONS)
        check_choice("card.sentences", self.sentences, SENTENCES)
        check(not self.draws, f"card.draws is {self.draws}; it must be 0: sentences are not drawn any more")
        check_support(self.support)
        tile, searched, side = self.tile_size, self.search_size, self.position_size
        check(16 <= tile <= MOST_TILE, f"card.tile_size is {tile}; it must be 16 to {MOST_TILE} pixels")
        fits = searched == 0 or tile <= searched <= MOST_TILE
        check(fits, f"card.search_size must be {tile} to {MOST_TILE} pixels, or 0")
        whole = side >= 1 and tile % side == searched % side == 0
        check(whole, f"card.tile_size and card.search_size must be multiples of {side} pixels")
        low_high = len(self.gsd_range) == 2 and 0 < self.gsd_range[0] <= self.gsd_range[1] < math.inf
        metres = 0 < self.gsd < math.inf and low_high
        check(metres, "card.gsd and card.gsd_range must be metres above 0, the finer first")
        check(
            all(0 < most < math.inf for most in self.ranges.values()), "card.ranges must be numbers above 0"
        )
        shares = 0 <= self.threshold <= 1 and 0 <= self.changed_threshold < math.inf
        check(shares, "card.threshold must be in 0..1, card.changed_threshold a number from 0")


@dataclass(frozen=True)
class ModelFolder:
    """A checked model folder.

    Attributes:
        path: the folder.
        card: what it says of itself.
        config: sizes of the model.
        no_change_prefixes: beginnings, in words, that only "no change" captions have.
        no_change_runs: runs of words that only they have, anywhere; none in folders of earlier versions.
        tells_facts: whether it holds what :func:`load_facts` reads.
    """

    path: Path
    card: ModelCard
    config: ModelConfig
    no_change_prefixes: tuple[tuple[str, ...], ...]
    no_change_runs: tuple[tuple[str, ...], ...] = ()
    tells_facts: bool = False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _facts_hash(hashes: Mapping[str, str]) -> str:
    told = "".join(hashes[name] for name in sorted(FACTS & hashes.keys()))
    return hashlib.sha256(told.encode()).hexdigest() if told else ""


def hashes_of(path: Path) -> tuple[str, str]:
    """Return SHA-256 of the weights of a folder, and of what it tells facts by (empty where it tells none).

    They are taken of the files, whatever ``model.json`` says.

    Raises:
        OSError: there are no weights, or a file cannot be read.
    """
    facts = {name: sha256_of(path / name) for name in FACTS if (path / name).is_file()}
    return sha256_of(path / "model.safetensors"), _facts_hash(facts)


def available_models() -> list[ModelCard]:
    """Return the cards of the models that come with this installation, by name."""
    return [open_model_folder(path.parent).card for path in sorted(SHIPPED.glob("*/model.json"))]


def find_model(model: str | Path) -> Path:
    """Return the folder of a shipped model's name or of a path.

    Raises:
        ModelNotFound: neither; the message lists the names.
    """
    for path in (SHIPPED / str(model), Path(model)):
        if os.path.isfile(path / "model.json"):  # pathlib's raises where a name is too long for the system
            return path
    names = ", ".join(path.parent.name for path in sorted(SHIPPED.glob("*/model.json"))) or "none"
    raise ModelNotFound(f"{model}: no such model; give a model folder or one of the shipped models: {names}")


def open_model_folder(path: Path, *, check_hashes: bool = False) -> ModelFolder:
    """Read a folder's description.

    Args:
        path: the folder.
        check_hashes: also compare every file with its recorded SHA-256.

    Raises:
        ModelFolderInvalid: a file is missing, unreadable, of an unknown format, or not the recorded one.
    """
    file = path / "model.json"
    try:
        content: dict[str, Any] = parsed_json(file.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ModelFolderInvalid(
                f"{file}: format {content['format']} is unknown; this rscc reads {_FORMAT}"
            )
        config = build(ModelConfig, content["model"], "model")
        card = build(ModelCard, _localising(content["card"]), "card")
        card = dataclasses.replace(card, position_size=config.position_size)  # not there in older folders
        several = tuple[tuple[str, ...], ...]
        prefixes = of_type(several, content.get("no_change_prefixes"), "no_change_prefixes")
        runs = of_type(several, content.get("no_change_runs", []), "no_change_runs")
        hashes: dict[str, str] = dict(content["sha256"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigInvalid) as error:
        raise ModelFolderInvalid(f"{file}: not a model description ({error})") from error
    for name, expected in hashes.items():
        member = path / Path(name).name
        if not os.path.isfile(member):
            raise ModelFolderInvalid(f"{path}: {name[:80]} is missing; copy the whole folder again")
        if check_hashes and sha256_of(member) != expected:
            raise ModelFolderInvalid(f"{member}: not the file that model.json describes (SHA-256 differs)")
    if "model.safetensors" not in hashes or "vocabulary.json" not in hashes:
        raise ModelFolderInvalid(f"{file}: must record model.safetensors and vocabulary.json")
    return ModelFolder(path, card, config, prefixes, runs, hashes.keys() >= FACTS)


def load_card(model: str | Path) -> ModelCard:
    """Read the card of a model by name or folder, without its weights; raises as what it calls."""
    return open_model_folder(find_model(model)).card


def _localising(card: dict[str, Any]) -> dict[str, Any]:
    """Let a folder that was written when only trained change heads localised do so by its attention."""
    if card["localisation"] or "localiser" in card:
        return card
    return {**card, "localiser": "attention", "localisation": LOCALISATIONS["attention"]}


def check_whole(card: ModelCard, shown: str | Path) -> None:
    """Raise ModelFolderInvalid for a part of a model; ``shown`` is what the message calls it."""
    if card.parts:
        raise ModelFolderInvalid(
            f"{shown}: {card.description}, not for captioning; give another --model, or train a captioner "
            "from it with rscc train --from"
        )


def load_model(folder: ModelFolder) -> ChangeCaptioner:
    """Build the model of a checked folder with its weights, in evaluation mode, in float32.

    Raises:
        ModelFolderInvalid: the weights are damaged, not all numbers, do not fit the described sizes, or are a
            part only.
    """
    from safetensors import SafetensorError

    from rscc.inference.tensors import load_weights
    from rscc.models import model_class
    from rscc.models.trunks import build_backbone
    from rscc.stored_weights import built_for, stored_elements
    from rscc.text.tokenizer import load_vocabulary

    check_whole(folder.card, folder.path)
    vocabulary = load_vocabulary(folder.path / "vocabulary.json")
    weights = folder.path / "model.safetensors"
    try:
        stored = stored_elements(weights)
    except (OSError, SafetensorError) as error:
        raise ModelFolderInvalid(f"{weights}: holds no weights ({error}); copy the folder again") from error
    try:
        kind = model_class(folder.config.paper)
        with built_for(stored):
            backbone = build_backbone(folder.config.backbone)
            model = kind(config=folder.config, backbone=backbone, vocabulary=vocabulary)
    except (ConfigInvalid, MemoryError, RuntimeError) as error:  # torch says so of more memory than there is
        raise ModelFolderInvalid(f"{folder.path / 'model.json'}: {first_line(error)}") from error
    try:
        state = load_weights(weights)
        # What is stored in half precision becomes float32.
        result = model.load_state_dict(state, strict=False)
        missing = [name for name in result.missing_keys if not name.endswith("num_batches_tracked")]
        if missing or result.unexpected_keys:
            raise RuntimeError(f"lacks {missing[:1]}, does not know {result.unexpected_keys[:1]}")
    except (SafetensorError, RuntimeError) as error:
        raise ModelFolderInvalid(f"{weights}: does not fit its model.json ({first_line(error)})") from error
    return model.eval()


def load_facts(folder: ModelFolder) -> FactModel | None:
    """Load what a checked folder tells facts by; None where it has none.

    Raises:
        ModelFolderInvalid: it is damaged.
    """
    from safetensors import SafetensorError

    from rscc.inference.facts import FactModel

    if not folder.tells_facts:
        return None
    try:
        return FactModel.load(folder.path)
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, MemoryError, SafetensorError,
    ) as error:  # fmt: skip
        reason = first_line(error)
        raise ModelFolderInvalid(f"{folder.path / 'facts.json'}: not facts that fit ({reason})") from error


def use_int8(folder: ModelFolder, model: ChangeCaptioner) -> None:
    """Let trunk and change head of a checked folder's model, its norms folded, compute in 8-bit integers.

    Raises:
        ModelFolderInvalid: the card's ranges are not those of this model.
    """
    from rscc.inference.int8 import Int8Trunk
    from rscc.inference.int8_head import Int8ChangeHead
    from rscc.models.shared.blocks import ChangeHead

    assert isinstance(model.change_head, ChangeHead)
    try:
        trunk = Int8Trunk(model.backbone, folder.card.ranges)
        model.change_head = Int8ChangeHead(model.change_head, trunk, folder.card.ranges)
    except (KeyError, ValueError) as error:
        file = folder.path / "model.json"
        raise ModelFolderInvalid(
            f"{file}: card.ranges does not fit this model ({error}); without ranges it computes in floats"
        ) from error
    model.backbone = trunk


def save_model_folder(
    path: Path,
    model: ChangeCaptioner,
    *,
    card: ModelCard,
    card_text: str,
    no_change_prefixes: Sequence[Sequence[str]],
    no_change_runs: Sequence[Sequence[str]] = (),
    facts: FactModel | None = None,
) -> ModelFolder:
    """Write a model folder; matrices are stored in half precision, the rest in float32.

    An existing folder is replaced once the new one is complete. Parts that only training needs
    (``model.training_only``) are left out, and what is not among ``card.parts``, if there are any.
    ``card.weights_sha256`` is filled in here.
    """
    import torch

    from rscc.inference.tensors import save_weights

    state = {
        name: (value.half() if value.ndim >= 2 and value.dtype == torch.float32 else value).contiguous()
        for name, value in model.state_dict().items()
        if not name.startswith(model.training_only) and not name.endswith("num_batches_tracked")
        if not card.parts or name.startswith(card.parts)
    }
    with atomic_write(path, alone=True) as (draft,):
        draft.mkdir(parents=True)
        save_weights(state, draft / "model.safetensors")
        model.vocabulary.save(draft / "vocabulary.json")
        (draft / "CARD.md").write_text(card_text, encoding="utf-8")
        members = ["model.safetensors", "vocabulary.json", "CARD.md"]
        if facts is not None:
            facts.save(draft)
            members += sorted(FACTS)
        hashes = {name: sha256_of(draft / name) for name in members}
        card = dataclasses.replace(
            card,
            weights_sha256=hashes["model.safetensors"],
            facts_sha256=_facts_hash(hashes),
            position_size=model.config.position_size,
        )
        content = {
            "format": _FORMAT,
            "card": dataclasses.asdict(card),
            "model": dataclasses.asdict(model.config),
            "no_change_prefixes": [list(words) for words in no_change_prefixes],
            "no_change_runs": [list(words) for words in no_change_runs],
            "sha256": hashes,
        }
        (draft / "model.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return open_model_folder(path)
