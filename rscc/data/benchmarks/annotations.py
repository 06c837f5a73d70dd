"""Shared by the readers of all benchmarks: JSON files, captions, and the data set of one split."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rscc.data.pairs import PairRecord
from rscc.errors import DatasetLayoutInvalid, SplitMissing
from rscc.files import parsed_json, read_file
from rscc.text.no_change import is_no_change

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Benchmark:
    """A captioned data set; calling it gives the pairs of a split.

    Attributes:
        title: its name for people.
        read: reads the records of a split, given the folder, the split and ``trust``, from the annotation
            files.
    """

    title: str
    read: Callable[[Path, str, tuple[str, ...]], list[PairRecord]]

    def __call__(
        self, root: str | Path, split: str = "train", *, trust: tuple[str, ...] = ()
    ) -> list[PairRecord]:
        """Read the annotations, no images.

        Args:
            root: folder of the data set; each reader's module describes its layout.
            trust: keep only pairs whose ``trust`` field is one of these; pairs without it always stay.

        Raises:
            SplitMissing: an annotation file is missing, or no pair is of the split.
            DatasetLayoutInvalid: a file has another layout, the split is unknown, or two pairs share a name.
        """
        root = Path(root)
        if split not in SPLITS:
            raise DatasetLayoutInvalid(f"{self.title} has no split {split!r}; use one of {', '.join(SPLITS)}")
        records = self.read(root, split, trust)
        if not records:
            condition = f" whose trust is {' or '.join(trust)}" if trust else ""
            others = [name for name in SPLITS if name != split and self._has_split(root, name, trust)]
            remedy = f"it has {' and '.join(others)}" if others else f"check that {self.title} is complete"
            raise SplitMissing(f"{root}: no pair of split {split!r}{condition}; {remedy}")
        name, times = Counter(record.id for record in records).most_common(1)[0]
        if times > 1:
            raise DatasetLayoutInvalid(
                f"{root}: {name} occurs {times} times in split {split!r}; keep one entry of it"
            )
        return records

    def _has_split(self, root: Path, split: str, trust: tuple[str, ...]) -> bool:
        with suppress(DatasetLayoutInvalid, SplitMissing):
            return bool(self.read(root, split, trust))
        return False


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
