"""Model folders: what a trained captioner is on disk, and the models that this installation knows.

A model folder holds ``model.safetensors``, ``vocabulary.json``, ``CARD.md`` for people and ``model.json``
with the card, the sizes of the model, the word sequences of "no change" sentences and the SHA-256 of the
other files. ``detector`` in it names a change detector of another project in the folder, which runs in place
of the change head. A model with fact heads adds ``facts.safetensors`` and ``facts.json``, one with a measure
of familiar ground ``familiarity.safetensors``.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rscc.config import ModelConfig
from rscc.errors import ConfigInvalid, ModelFolderInvalid, ModelNotFound, OutputExists, first_line
from rscc.files import atomic_write, open_regular, parsed_json, read_file
from rscc.folders import SHIPPED
from rscc.model_card import ModelCard
from rscc.settings import build, of_type

if TYPE_CHECKING:
    from torch import nn

    from rscc.facts.fact_model import FactModel
    from rscc.facts.familiarity import Familiarity
    from rscc.models.shared.captioner import ChangeCaptioner
    from rscc.models.shared.change_detector import ChangeDetector

    Network = TypeVar("Network", bound=nn.Module)

_FORMAT = 1
MOST_WEIGHTS = 2**36
"""Largest file of a folder that is hashed."""
FACTS = frozenset({"facts.safetensors", "facts.json"})
"""Files of a folder with fact heads."""
FAMILIARITY = "familiarity.safetensors"
"""File of a folder with a measure of familiar ground."""
DETECTOR = ("backbone.", "change_head.")
"""Prefixes of the weights of a :class:`~rscc.models.shared.change_detector.ChangeDetector`."""


@dataclass(frozen=True)
class ModelFolder:
    """A checked model folder.

    Attributes:
        no_change_prefixes: beginnings, in words, that only "no change" captions have.
        no_change_runs: runs of words, anywhere in a sentence, that only "no change" captions have.
        has_facts, has_familiarity: whether it holds the files that :func:`load_facts` and
            :func:`load_familiarity` read.
        detector: weights of the detector of another project; None without one.
    """

    path: Path
    card: ModelCard
    config: ModelConfig
    no_change_prefixes: tuple[tuple[str, ...], ...]
    no_change_runs: tuple[tuple[str, ...], ...] = ()
    has_facts: bool = False
    has_familiarity: bool = False
    detector: Path | None = None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits.

    Raises:
        OSError: it cannot be read, or has more than 64 GiB.
    """
    with open(path, "rb", opener=open_regular) as file:
        if os.fstat(file.fileno()).st_size > MOST_WEIGHTS:
            raise OSError(errno.EFBIG, f"it has more than {MOST_WEIGHTS // 2**30} GiB", str(path))
        return hashlib.file_digest(file, "sha256").hexdigest()


def _facts_hash(hashes: Mapping[str, str]) -> str:
    joined = "".join(hashes[name] for name in sorted(FACTS & hashes.keys()))
    return hashlib.sha256(joined.encode()).hexdigest() if joined else ""


def hashes_of(path: Path) -> tuple[str, str]:
    """Return the SHA-256 of the weights of a folder, and of its fact heads (empty without them).

    The files are hashed, whatever ``model.json`` records.

    Raises:
        OSError: there are no weights, or a file cannot be read.
    """
    facts = {name: sha256_of(path / name) for name in FACTS if (path / name).is_file()}
    return sha256_of(path / "model.safetensors"), _facts_hash(facts)


def available_models() -> list[ModelCard]:
    """Return the cards of the models that come with this installation, by name."""
    return [*_cards_in(SHIPPED)]


@cache
def _cards_in(folder: Path) -> tuple[ModelCard, ...]:
    return tuple(open_model_folder(path.parent).card for path in sorted(folder.glob("*/model.json")))


def find_model(model: str | Path) -> Path:
    """Return the folder of a shipped model's name or of a path.

    Raises:
        ModelNotFound: neither exists; the message lists the names.
    """
    for path in (SHIPPED / str(model), Path(model)):
        if os.path.isfile(path / "model.json"):  # pathlib raises for names too long for the system
            return path
    names = ", ".join(path.parent.name for path in sorted(SHIPPED.glob("*/model.json"))) or "none"
    raise ModelNotFound(f"{model}: no such model; give a model folder or one of the shipped models: {names}")


def open_model_folder(path: Path, *, check_hashes: bool = False) -> ModelFolder:
    """Read the description of a folder.

    Args:
        check_hashes: also compare every file with its recorded SHA-256.

    Raises:
        ModelFolderInvalid: a file is missing, unreadable, of an unknown format, or not the recorded one.
    """
    file = path / "model.json"
    try:
        content: dict[str, Any] = parsed_json(read_file(file))
        if content["format"] != _FORMAT:
            raise ModelFolderInvalid(
                f"{file}: format {content['format']} is unknown; this rscc reads {_FORMAT}"
            )
        config = build(ModelConfig, content["model"], "model")
        card = build(ModelCard, content["card"], "card")
        # A card that describes a detector without its weights would say what no network does.
        card = dataclasses.replace(card, position_size=config.position_size, detector=None)
        several = tuple[tuple[str, ...], ...]
        prefixes = of_type(several, content.get("no_change_prefixes"), "no_change_prefixes")
        runs = of_type(several, content.get("no_change_runs", []), "no_change_runs")
        hashes: dict[str, str] = dict(content["sha256"].items())
        detector = of_type(str | None, content.get("detector"), "detector")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, ConfigInvalid) as error:
        raise ModelFolderInvalid(f"{file}: not a model description ({error})") from error
    if "model.safetensors" not in hashes or "vocabulary.json" not in hashes:
        raise ModelFolderInvalid(f"{file}: must record model.safetensors and vocabulary.json")
    for name, expected in hashes.items():
        _check_member(path, name, expected if check_hashes else None)
    if detector is not None and (detector not in hashes or Path(detector).name != detector):
        raise ModelFolderInvalid(f"{file}: detector must be one of the files in sha256")
    weights = None if detector is None else path / detector
    has_facts, has_familiarity = hashes.keys() >= FACTS, FAMILIARITY in hashes
    return ModelFolder(path, card, config, prefixes, runs, has_facts, has_familiarity, weights)


def _check_member(path: Path, name: str, expected: str | None) -> None:
    member = path / Path(name).name
    if not os.path.isfile(member):
        raise ModelFolderInvalid(f"{path}: {name[:80]} is missing; copy the whole folder again")
    if expected is not None and sha256_of(member) != expected:
        raise ModelFolderInvalid(f"{member}: not the file that model.json describes (SHA-256 differs)")


def load_card(model: str | Path) -> ModelCard:
    """Read the card of a model by name or folder, without its weights."""
    folder = open_model_folder(find_model(model))
    if folder.detector is None:
        return folder.card
    from rscc.models.torchgeo_detector import card_with_detector

    return card_with_detector(folder.detector, folder.card)


def add_detector(model: str | Path, detector: str | Path, path: Path) -> ModelFolder:
    """Copy a model into a new folder and add a detector, ``torchgeo:FILE``, with its TOML file.

    Raises:
        OutputExists: the folder exists.
        ModelNotFound, ModelFolderInvalid, DetectorInvalid, ExtraNotInstalled: one of both cannot be opened.
    """
    from rscc.models.torchgeo_detector import PREFIX, load_torchgeo

    source = open_model_folder(find_model(model), check_hashes=True)
    load_torchgeo(detector, source.card)
    weights = Path(str(detector).removeprefix(PREFIX))
    if os.path.lexists(path):
        raise OutputExists(f"{path}: exists already; give a new folder")
    members = [file for file in (weights, weights.with_suffix(".toml")) if file.is_file()]
    with atomic_write(path) as (draft,):
        shutil.copytree(source.path, draft)
        for member in members:
            shutil.copyfile(member, draft / member.name)
        content = parsed_json(read_file(draft / "model.json"))
        content["sha256"] |= {member.name: sha256_of(draft / member.name) for member in members}
        content["detector"] = weights.name
        (draft / "model.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return open_model_folder(path)


def check_whole(card: ModelCard, shown: str | Path) -> None:
    """Raise ModelFolderInvalid for a part of a model; ``shown`` is its name in the message."""
    if card.parts:
        raise ModelFolderInvalid(
            f"{shown}: {card.description}, not for captioning; give another --model, or train a captioner "
            "from it with rscc train --from"
        )


def load_model(folder: ModelFolder, detector: ChangeDetector | None = None) -> ChangeCaptioner:
    """Build the model of a checked folder with its weights, in evaluation mode, in float32.

    Args:
        detector: the model takes trunk and change head of it, and only the other weights are read.

    Raises:
        ModelFolderInvalid: the weights are damaged, not finite, do not fit the described sizes, or are a part
            of a model only.
    """
    from rscc.models.backbones import build_backbone
    from rscc.models.papers import model_class
    from rscc.text.tokenizer import load_vocabulary

    vocabulary = load_vocabulary(folder.path / "vocabulary.json")

    def network() -> ChangeCaptioner:
        kind = model_class(folder.config.paper)
        backbone = build_backbone(folder.config.backbone)
        return kind(config=folder.config, backbone=backbone, vocabulary=vocabulary)

    if detector is None:
        return _loaded(folder, network, lambda name: True)
    model = _loaded(folder, network, lambda name: not name.startswith(DETECTOR))
    model.backbone, model.change_head = detector.backbone, detector.change_head
    return model


def load_detector(folder: ModelFolder) -> ChangeDetector:
    """Build trunk and change head only; otherwise like :func:`load_model`."""
    from rscc.models.backbones import build_backbone
    from rscc.models.shared.change_detector import ChangeDetector, ChangeHead

    config = folder.config

    def network() -> ChangeDetector:
        backbone = build_backbone(config.backbone)
        head = ChangeHead(channels=backbone.channels, width=config.head_width)
        return ChangeDetector(backbone=backbone, change_head=head, pool=config.pool)

    return _loaded(folder, network, lambda name: name.startswith(DETECTOR))


def _loaded(folder: ModelFolder, network: Callable[[], Network], wanted: Callable[[str], bool]) -> Network:
    from safetensors import SafetensorError

    from rscc.weights import built_for, load_weights, stored_elements

    check_whole(folder.card, folder.path)
    weights = folder.path / "model.safetensors"
    try:
        stored = stored_elements(weights)
    except (OSError, SafetensorError) as error:
        raise ModelFolderInvalid(f"{weights}: holds no weights ({error}); copy the folder again") from error
    try:
        with built_for(stored):
            model = network()
    except (ConfigInvalid, MemoryError, RuntimeError) as error:  # RuntimeError: torch is out of memory
        raise ModelFolderInvalid(f"{folder.path / 'model.json'}: {first_line(error)}") from error
    try:
        # Tensors stored in half precision become float32.
        result = model.load_state_dict(load_weights(weights, wanted), strict=False)
        missing = [
            name for name in result.missing_keys if wanted(name) and not name.endswith("num_batches_tracked")
        ]
        if missing or result.unexpected_keys:
            raise RuntimeError(f"lacks {missing[:1]}, does not know {result.unexpected_keys[:1]}")
    except (SafetensorError, RuntimeError) as error:
        raise ModelFolderInvalid(f"{weights}: does not fit its model.json ({first_line(error)})") from error
    return model.eval()


def load_facts(folder: ModelFolder) -> FactModel | None:
    """Load the fact heads of a checked folder; None where it has none."""
    from rscc.facts.fact_model import FactModel

    if not folder.has_facts:
        return None
    with _damage_named(folder.path / "facts.json", "facts that fit"):
        return FactModel.load(folder.path)


def load_familiarity(folder: ModelFolder) -> Familiarity | None:
    """Load the measure of familiar ground of a checked folder; None where it has none."""
    from rscc.facts.familiarity import Familiarity

    if not folder.has_familiarity:
        return None
    with _damage_named(folder.path / FAMILIARITY, "a measure that fits"):
        return Familiarity.load(folder.path)


@contextmanager
def _damage_named(file: Path, expected: str) -> Iterator[None]:
    """Turn whatever a damaged file makes of its reader into an error that names the file."""
    from safetensors import SafetensorError

    try:
        yield
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
        SafetensorError,
    ) as error:  # fmt: skip
        raise ModelFolderInvalid(f"{file}: not {expected} ({first_line(error)})") from error


def use_int8(folder: ModelFolder, detector: ChangeDetector) -> None:
    """Replace trunk and change head, norms folded, by their versions in 8-bit integers.

    Raises:
        ModelFolderInvalid: the ranges on the card are not those of this model.
    """
    from rscc.models.int8 import Int8ChangeHead, Int8Trunk
    from rscc.models.shared.change_detector import ChangeHead

    assert isinstance(detector.change_head, ChangeHead)
    try:
        trunk = Int8Trunk(detector.backbone, folder.card.ranges)
        detector.change_head = Int8ChangeHead(detector.change_head, trunk, folder.card.ranges)
    except (KeyError, ValueError) as error:
        file = folder.path / "model.json"
        raise ModelFolderInvalid(
            f"{file}: card.ranges does not fit this model ({error}); without ranges it computes in floats"
        ) from error
    detector.backbone = trunk


def save_model_folder(
    path: Path,
    model: ChangeCaptioner,
    *,
    card: ModelCard,
    card_text: str,
    no_change_prefixes: Sequence[Sequence[str]],
    no_change_runs: Sequence[Sequence[str]] = (),
    facts: FactModel | None = None,
    familiarity: Familiarity | None = None,
) -> ModelFolder:
    """Write a model folder; matrices are stored in half precision, the rest in float32.

    An existing folder is replaced once the new one is complete. Parts that only training needs
    (``model.training_only``) are left out; with ``card.parts`` all other weights are, too. The hashes of the
    card are filled in here.
    """
    import torch

    from rscc.weights import save_weights

    state = {
        name: (value.half() if value.ndim >= 2 and value.dtype == torch.float32 else value).contiguous()
        for name, value in model.state_dict().items()
        if not name.startswith(model.training_only) and not name.endswith("num_batches_tracked")
        if not card.parts or name.startswith(card.parts)
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as (draft,):
        draft.mkdir()
        save_weights(state, draft / "model.safetensors")
        model.vocabulary.save(draft / "vocabulary.json")
        (draft / "CARD.md").write_text(card_text, encoding="utf-8")
        members = ["model.safetensors", "vocabulary.json", "CARD.md"]
        if facts is not None:
            facts.save(draft)
            members += sorted(FACTS)
        if familiarity is not None:
            familiarity.save(draft)
            members.append(FAMILIARITY)
        hashes = {name: sha256_of(draft / name) for name in members}
        card = dataclasses.replace(
            card,
            weights_sha256=hashes["model.safetensors"],
            facts_sha256=_facts_hash(hashes),
            familiarity_sha256=hashes.get(FAMILIARITY, ""),
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
