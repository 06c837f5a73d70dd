"""What the readers of all benchmarks share: JSON files, captions, and the data set of one split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from rscc.data.pairs import PairList, PairRecord
from rscc.errors import DatasetLayoutInvalid, SplitMissing
from rscc.files import parsed_json
from rscc.text.no_change import is_no_change

SPLITS = ("train", "val", "test")


class PairDataset(PairList, ABC):
    """Pairs of one split, in the order of the annotation file.

    Attributes:
        title: name of the data set for messages.
    """

    title: ClassVar[str]

    def __init__(self, root: str | Path, split: str = "train", *, trust: tuple[str, ...] = ()):
        """Read the annotations; images are read on access.

        Args:
            root: folder of the data set, see the module of each reader for its layout.
            split: ``train``, ``val`` or ``test``.
            trust: keep only pairs whose ``trust`` field is one of these; pairs without it always stay.

        Raises:
            SplitMissing: a file of annotations is missing, or no pair is of the split.
            DatasetLayoutInvalid: a file is another one, the split is unknown, or two pairs have one name.
        """
        self.root, self.split = Path(root), split
        if split not in SPLITS:
            raise DatasetLayoutInvalid(f"{self.title} has no split {split!r}; use one of {', '.join(SPLITS)}")
        self.records = self.read_records(trust)
        if not self.records:
            kept = f" whose trust is {' or '.join(trust)}" if trust else ""
            others = [one for one in SPLITS if one != split and self._has(one, trust)]
            remedy = f"it has {' and '.join(others)}" if others else f"check that {self.title} is complete"
            raise SplitMissing(f"{self.root}: no pair of split {split!r}{kept}; {remedy}")
        name, times = Counter(record.id for record in self.records).most_common(1)[0]
        if times > 1:
            raise DatasetLayoutInvalid(
                f"{self.root}: {name} stands {times} times in split {split!r}; leave one entry of it"
            )

    def _has(self, split: str, trust: tuple[str, ...]) -> bool:
        """Return whether there are pairs of another split; of this one there are none."""
        self.split = split
        with suppress(DatasetLayoutInvalid, SplitMissing):
            return bool(self.read_records(trust))
        return False

    @abstractmethod
    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the records of the split from the annotation files."""


@contextmanager
def read_annotations(path: Path, title: str) -> Iterator[Any]:
    """Give what a JSON file of the data set ``title`` holds; what the block misses in it is the file's fault.

    Raises:
        SplitMissing: the file is missing.
        DatasetLayoutInvalid: it is no JSON in UTF-8, or lacks what the block looks for.
    """
    if not path.is_file():
        raise SplitMissing(f"{path.parent}: no {path.name} there; give the folder of {title} that holds it")
    try:
        yield parsed_json(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:  # which would tell the whole file
        raise DatasetLayoutInvalid(f"{path}: not a text in UTF-8; save it as UTF-8") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not a {title} captions file ({error!r}); take the one of the official release"
        ) from error


def list_of(value: Any, kind: type) -> list[Any]:
    """Return a list of which every item is a ``kind``.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise TypeError(f"expected a list of {kind.__name__}")
    return value


def clean_captions(sentences: Any) -> tuple[str, ...]:
    """Return sentences in lower case without surplus space; empty ones are left out.

    Raises:
        TypeError: it is no list of texts.
    """
    cleaned = (" ".join(sentence.lower().split()) for sentence in list_of(sentences, str))
    return tuple(sentence for sentence in cleaned if sentence)


def folder_of(root: Path, *names: str) -> Path:
    """Return the first of these folders in ``root`` that exists; without any the first."""
    return next((root / name for name in names if (root / name).is_dir()), root / names[0])


def speaks_of_change(captions: tuple[str, ...]) -> bool | None:
    """Return whether a pair changed by its captions: one sentence on a change is enough; None without any."""
    return not all(map(is_no_change, captions)) if captions else None
