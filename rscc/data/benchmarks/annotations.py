"""Shared by the readers of all benchmarks: JSON files, captions, and the data set of one split."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from rscc.data.pairs import PairRecord, PairSample, read_pair
from rscc.errors import DatasetLayoutInvalid, SplitMissing
from rscc.files import parsed_json, read_file
from rscc.text.no_change import is_no_change

SPLITS = ("train", "val", "test")


class PairDataset(ABC):
    """The pairs of one split; indexing reads one from disk, see :func:`~rscc.data.pairs.read_pair`."""

    title: ClassVar[str]

    def __init__(self, root: str | Path, split: str = "train", *, trust: tuple[str, ...] = ()):
        """Read the annotations, no images.

        Args:
            root: folder of the data set; each reader's module describes its layout.
            trust: keep only pairs whose ``trust`` field is one of these; pairs without it always stay.

        Raises:
            SplitMissing: an annotation file is missing, or no pair is of the split.
            DatasetLayoutInvalid: a file has another layout, the split is unknown, or two pairs share a name.
        """
        self.root, self.split = Path(root), split
        if split not in SPLITS:
            raise DatasetLayoutInvalid(f"{self.title} has no split {split!r}; use one of {', '.join(SPLITS)}")
        self.records = self.read_records(trust)
        if not self.records:
            condition = f" whose trust is {' or '.join(trust)}" if trust else ""
            others = [name for name in SPLITS if name != split and self._has_split(name, trust)]
            remedy = f"it has {' and '.join(others)}" if others else f"check that {self.title} is complete"
            raise SplitMissing(f"{self.root}: no pair of split {split!r}{condition}; {remedy}")
        name, times = Counter(record.id for record in self.records).most_common(1)[0]
        if times > 1:
            raise DatasetLayoutInvalid(
                f"{self.root}: {name} occurs {times} times in split {split!r}; keep one entry of it"
            )

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> PairSample:
        return read_pair(self.records[index])

    def _has_split(self, split: str, trust: tuple[str, ...]) -> bool:
        """Return whether there are pairs of another split, for the message that this one has none."""
        self.split = split
        with suppress(DatasetLayoutInvalid, SplitMissing):
            return bool(self.read_records(trust))
        return False

    @abstractmethod
    def read_records(self, trust: tuple[str, ...]) -> list[PairRecord]:
        """Read the records of the split from the annotation files."""


@contextmanager
def read_annotations(path: Path, title: str) -> Iterator[Any]:
    """Give the content of a JSON file of the data set ``title``; what the block misses in it is an error.

    Raises:
        SplitMissing: the file is missing.
        DatasetLayoutInvalid: it is no JSON in UTF-8, or lacks what the block reads.
    """
    if not path.is_file():
        raise SplitMissing(f"{path.parent}: no {path.name} there; give the folder of {title} that holds it")
    try:
        yield parsed_json(read_file(path).decode("utf-8-sig"))
    except UnicodeDecodeError as error:  # its text would hold the whole file
        raise DatasetLayoutInvalid(f"{path}: not a text in UTF-8; save it as UTF-8") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DatasetLayoutInvalid(
            f"{path}: not a {title} captions file ({error!r}); use the one of the official release"
        ) from error


def list_of(value: Any, kind: type) -> list[Any]:
    """Return a list whose items all are a ``kind``."""
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise TypeError(f"expected a list of {kind.__name__}")
    return value


def clean_captions(sentences: Any) -> tuple[str, ...]:
    """Return sentences in lower case without surplus space and without empty ones."""
    cleaned = (" ".join(sentence.lower().split()) for sentence in list_of(sentences, str))
    return tuple(sentence for sentence in cleaned if sentence)


def folder_of(root: Path, *names: str) -> Path:
    """Return the first of these folders in ``root`` that exists, otherwise the first."""
    return next((root / name for name in names if (root / name).is_dir()), root / names[0])


def describes_change(captions: tuple[str, ...]) -> bool | None:
    """Return whether any caption describes a change; None without captions."""
    return not all(map(is_no_change, captions)) if captions else None
