"""The parsers of ours under atheris, a fuzzer that is led by what its inputs reach.

Usage: pip install atheris, then: python tests/support/fuzz_atheris.py TARGET [-max_total_time=600] [CORPUS]

Targets are vrt, table, stac, report, model, weights and ledger.

A finding is an error that is none of ours: its traceback is printed and the input kept as crash-... by
libFuzzer; make a test of it. Without a folder of its own as corpus it starts from the sound file.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

for place in (Path(__file__).parent, Path(__file__).parents[2]):
    sys.path.insert(0, str(place))

import atheris  # type: ignore[import-not-found]  # noqa: E402

with atheris.instrument_imports(include=["rscc", "tiling", "workflows", "xml", "json"]):
    from fuzz_bases import _ledger, _model, _report, _stac, _table, _vrt

    from rscc.model_folder import load_model, open_model_folder
    from tiling.vrt import checked_vrt
    from workflows.archive.status import archive_status, failure_reasons
    from workflows.inspection.event import read_event
    from workflows.pairs.options import CatalogOptions
    from workflows.pairs.sources import read_catalog
    from workflows.pairs.table import read_pairs


def _read_ledger(file: Path) -> None:
    for other in file.parent.glob("ledger.sqlite-*"):
        other.unlink()
    archive_status(file.parent)
    failure_reasons(file.parent)


def _read_report(file: Path) -> None:
    event = read_event(file, 1)
    event.options()
    list(event.others())


# What makes the sound folder, the file that is damaged in it, and what reads that.
TARGETS: dict[str, tuple[Callable, str, Callable[[Path], object]]] = {
    "vrt": (_vrt, "before.vrt", lambda file: checked_vrt(file.name, file)),
    "table": (lambda root: _table(root, "csv"), "pairs.csv", read_pairs),
    "stac": (
        _stac,
        "s2019.json",
        lambda file: read_catalog([str(file.with_name("catalog.json"))], CatalogOptions()),
    ),
    "report": (_report, "report.geojson", _read_report),
    "model": (_model, "model/model.json", lambda file: load_model(open_model_folder(file.parent))),
    "weights": (_model, "model/model.safetensors", lambda file: load_model(open_model_folder(file.parent))),
    "ledger": (_ledger, "archive/ledger.sqlite", _read_ledger),
}


def main() -> None:
    """Fuzz one target."""
    make, name, read = TARGETS[sys.argv.pop(1)]
    root = Path(tempfile.mkdtemp())
    file = make(root).folder / name
    seeds = root / "seeds"
    seeds.mkdir()
    (seeds / "sound").write_bytes(file.read_bytes())

    def one(data: bytes) -> None:
        file.write_bytes(data)
        try:
            read(file)
        except Exception as error:
            if not isinstance(getattr(error, "exit_code", None), int):
                raise

    atheris.Setup([*sys.argv, str(seeds)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
