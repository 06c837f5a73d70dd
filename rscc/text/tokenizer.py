"""The pieces of a language model's tokenizer as a :class:`~rscc.text.vocabulary.Vocabulary`.

Captions are reduced to lower-case words first, as everywhere in ``rscc``, so that scores are comparable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rscc.errors import ConfigInvalid, ExtraNotInstalled, ModelFolderInvalid, extra, first_line
from rscc.files import parsed_json, read_file
from rscc.settings import of_type
from rscc.text.vocabulary import Vocabulary, tokenize

_ROLES = ("pad", "bos", "eos", "unk")


class TokenizerVocabulary(Vocabulary):
    """A fixed tokenizer; ids are its own."""

    def __init__(self, tokenizer: Any, *, pad: int, bos: int, eos: int, unk: int):
        """Use a ``tokenizers.Tokenizer`` and the ids of its special pieces.

        Raises:
            ModelFolderInvalid: an id is not one of the tokenizer's, or padding is the same as begin or end.
        """
        self._tokenizer = tokenizer
        self.pad, self.bos, self.eos, self.unk = pad, bos, eos, unk
        ids: dict[str, int] = tokenizer.get_vocab()
        pieces = [""] * (max(ids.values()) + 1)
        for piece, place in ids.items():
            pieces[place] = piece
        self.words = tuple(pieces)
        self._ids = ids
        if not all(0 <= special < len(self.words) for special in (pad, bos, eos, unk)):
            raise ModelFolderInvalid(
                f"the special pieces {pad}, {bos}, {eos}, {unk} are not all among the tokenizer's "
                f"{len(self.words)}; fetch the tokenizer again"
            )
        if pad in (bos, eos):
            raise ModelFolderInvalid("the tokenizer pads with its begin or end token; give it one of its own")

    @classmethod
    def of_transformers(cls, tokenizer: Any) -> TokenizerVocabulary:
        """Use a fast tokenizer of transformers with its special pieces; unknown can serve as padding.

        Raises:
            ConfigInvalid: it is not a fast one, or knows no begin, end or unknown piece.
        """
        backend = getattr(tokenizer, "backend_tokenizer", None)
        special = {role: getattr(tokenizer, f"{role}_token_id") for role in _ROLES}
        if special["pad"] in (None, special["bos"], special["eos"]):
            special["pad"] = special["unk"]
        missing = [role for role, place in special.items() if place is None]
        if backend is None or missing:
            lack = f"has no {missing[0]} token" if missing else "has no tokenizer.json"
            raise ConfigInvalid(f"the language model's tokenizer {lack}; convert it with transformers first")
        return cls(backend, **special)

    def _numbers(self, text: str) -> list[int]:
        return self._pieces(" ".join(tokenize(text)))

    def extended(self, captions: Iterable[str], min_count: int = 5) -> Vocabulary:
        """Return this vocabulary: its pieces can spell every word."""
        return self

    def prompt(self, text: str, max_length: int) -> list[int]:
        """Return ``[bos, pieces ...]`` of an unchanged instruction, truncated to ``max_length`` ids."""
        return [self.bos, *self._pieces(text)][:max_length]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the sentence up to the first eos, in lower-case words joined by one space."""
        return " ".join(tokenize(self._tokenizer.decode(self._spoken(ids), skip_special_tokens=True)))

    def save(self, path: str | Path) -> None:
        """Write the whole tokenizer and its special ids as JSON."""
        content = {role: getattr(self, role) for role in _ROLES}
        content["tokenizer"] = json.loads(self._tokenizer.to_str())
        Path(path).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")

    def _pieces(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def load_vocabulary(path: Path) -> Vocabulary:
    """Read the vocabulary of a model folder, of words or of a tokenizer's pieces.

    Raises:
        ModelFolderInvalid: the file is missing or neither of both.
        ExtraNotInstalled: it is a tokenizer, and the library for it is not installed.
    """
    try:
        content = parsed_json(read_file(path))
        if "tokenizer" not in content:
            return Vocabulary(of_type(tuple[str, ...], content["words"], "words"))
        with extra("davir", f"{path}: this model"):
            from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_str(json.dumps(content["tokenizer"]))
        return TokenizerVocabulary(tokenizer, **{role: int(content[role]) for role in _ROLES})
    except ExtraNotInstalled:
        raise
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelFolderInvalid(
            f"{path}: not a vocabulary ({first_line(error)}); check the model folder"
        ) from error
