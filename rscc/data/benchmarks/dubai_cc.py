"""Dubai-CC (Hoxha et al., TGRS 2022) in its official layout: 500 tiles of 50 x 50 px, Landsat 7, 30 m.

``description_jsontr_te_val/{Train,Validation,Test}_Dubai_CC.json`` (or in the root itself) and
``imgs_tiles/RGB/{500_2000,500_2010}/<tile>.tif``. The JSON is that of LEVIR-CC without folders and flags: a
pair counts as changed if one of its five sentences describes a change. The split lists ``train.txt``,
``val.txt`` and ``test.txt`` of later projects are equal and are not read.
"""

from pathlib import Path

from rscc.data.benchmarks.annotations import (
    Benchmark,
    clean_captions,
    describes_change,
    folder_of,
    list_of,
    read_annotations,
)
from rscc.data.pairs import PairRecord, file_name

_FILES = {"train": "Train_Dubai_CC.json", "val": "Validation_Dubai_CC.json", "test": "Test_Dubai_CC.json"}
_TITLE = "Dubai-CC"


def _read(root: Path, split: str, trust: tuple[str, ...]) -> list[PairRecord]:
    tiles = root / "imgs_tiles" / "RGB"
    records = []
    folder = folder_of(root, "description_jsontr_te_val", ".")
    with read_annotations(folder / _FILES[split], _TITLE) as content:
        for entry in list_of(content["images"], dict):
            name = file_name(entry["filename"])
            captions = clean_captions([sentence["raw"] for sentence in entry["sentences"]])
            records.append(
                PairRecord(
                    id=name,
                    before=tiles / "500_2000" / name,
                    after=tiles / "500_2010" / name,
                    captions=captions,
                    changed=describes_change(captions),
                    gsd=30.0,
                )
            )
    return records


DubaiCC = Benchmark(_TITLE, _read)
