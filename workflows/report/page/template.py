"""Join one HTML file from the files of this room, with a policy that allows nothing else.

A page contacts no server. Its policy names its one style and its one script by their hashes; texts of other
people are data that only the script reads, and shows as text.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from workflows.errors import FormatUnsupported
from workflows.files import check_free
from workflows.printable import printable

SUFFIX = ".html"
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Template:
    """A page by the names of its files.

    Attributes:
        page: the HTML: ``[[head]]``, which all pages share, ``[[script]]``, and names of data texts.
        styles, scripts: the parts of its one style and its one script, in order.
        pictures: their sources in the policy: inside the page, or beside it.
    """

    page: str
    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    pictures: str = "data:"

    def joined(self, **data: str) -> Iterator[str]:
        """Yield the parts of a page; ``data`` are texts of :func:`data_text`, by name."""
        parts = {**data, **self._own}
        text = page_file(self.page).replace("[[head]]", page_file("head.html"))
        for number, piece in enumerate(re.split(r"\[\[(\w+)\]\]", text)):
            yield parts[piece] if number % 2 else piece

    @cached_property
    def _own(self) -> dict[str, str]:
        """The parts that all pages share: script, style, and the policy that names them."""
        body = "".join(map(page_file, self.scripts))
        script, style = f'(() => {{\n"use strict";\n{body}}})();\n', "".join(map(page_file, self.styles))
        policy = "; ".join(
            (
                "default-src 'none'",
                f"img-src {self.pictures}",
                f"style-src '{_hash(style)}'",
                f"script-src '{_hash(script)}'",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        )
        return {"policy": policy, "style": style, "script": script}


def check_page_name(path: str | Path, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Make sure that a page can be written to ``path``, leaving nothing there; not over ``inputs``."""
    path = Path(path)
    if path.suffix.lower() != SUFFIX:
        raise FormatUnsupported(f"{path}: a page is written as {SUFFIX}; give it such a name")
    check_free([path], overwrite, inputs)
    return path


def data_text(value: Any) -> str:
    """Return JSON for a page, escaped so that it cannot end its element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, escaped in _ESCAPED.items():
        text = text.replace(letter, escaped)
    return text


def legible(value: Any) -> Any:
    """Return plain values with invisible and control characters of texts escaped, as for a terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(key): legible(one) for key, one in value.items()}
    return [legible(one) for one in value] if isinstance(value, list) else value


@cache
def page_file(name: str) -> str:
    """Return the text of a file of pages."""
    return files("workflows.report.page").joinpath("files", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
