"""Tables of pairs that are small on the disk and huge in memory, or whose reference system names a file."""

import json
import os
import tracemalloc

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shapely.geometry import box

from tiling import UnsafeReference
from workflows.errors import PairTableInvalid
from workflows.pairs import parquet, table
from workflows.pairs.table import read_pairs

LONG = "x" * 100_000


def dictionary(path):
    codes = pa.array(np.zeros(400, np.int32))
    texts = pa.DictionaryArray.from_arrays(codes, pa.array([LONG]))
    pq.write_table(pa.table({"before": texts, "after": ["b"] * 400}), path, compression="zstd")


def prefix(path):
    texts = [LONG + str(number % 2) for number in range(400)]
    encodings = {"before": "DELTA_BYTE_ARRAY", "after": "PLAIN"}
    content = pa.table({"before": texts, "after": ["b"] * 400})
    pq.write_table(content, path, compression="zstd", use_dictionary=False, column_encoding=encodings)


def page(path):
    content = pa.table({"before": [LONG] * 400, "after": ["b"] * 400})
    pq.write_table(content, path, compression="zstd", use_dictionary=False, data_page_size=2**30)


@pytest.mark.parametrize("write", [dictionary, prefix, page])
def test_columns_that_unpack_to_a_thousand_times_are_refused(tmp_path, monkeypatch, write):
    path = tmp_path / "pairs.parquet"
    write(path)
    assert path.stat().st_size < 40_000
    monkeypatch.setattr(parquet, "MAX_CHARACTERS", 10**6)
    with pytest.raises(PairTableInvalid, match=r"pairs\.parquet"):
        read_pairs(path)


def test_a_table_that_takes_too_much_memory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "pairs.csv").write_text("before,after\na,b\n")
    monkeypatch.setattr(table, "_read_csv", lambda path: bytearray(2**62))
    with pytest.raises(PairTableInvalid, match=r"pairs\.csv"):
        read_pairs(tmp_path / "pairs.csv")


@pytest.mark.parametrize(
    "text",
    [
        "before,after\n" + "a,b\n" * 20,
        "before,after," + "c" * 1000 + "\na,b\n",
        ",".join(["before", "after", *map(str, range(1000))]) + "\na,b\n",
        "before,after\n" + '"a' + "\n" * 3000 + '",b\n',
    ],
    ids=["rows", "name", "columns", "bytes"],
)
def test_a_text_of_endless_rows_columns_or_cells_is_refused(tmp_path, monkeypatch, text):
    for name, most in {"MAX_ROWS": 10, "_MAX_COLUMNS_TEXT": 500, "MAX_BYTES": 3000}.items():
        monkeypatch.setattr(table, name, most)
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(PairTableInvalid, match=r"pairs\.csv"):
        read_pairs(tmp_path / "pairs.csv")


def test_a_parquet_of_endless_rows_is_refused_unread(tmp_path):
    nothing = pa.nulls(table.MAX_ROWS + 1, pa.string())
    pq.write_table(pa.table({"before": nothing, "after": nothing}), tmp_path / "pairs.parquet")
    tracemalloc.start()
    with pytest.raises(PairTableInvalid):
        read_pairs(tmp_path / "pairs.parquet")
    assert tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.parquet"])
def test_a_sparse_table_of_terabytes_is_refused(tmp_path, name):
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**41)
    with pytest.raises(PairTableInvalid):
        read_pairs(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "+proj=utm +zone=33 +nadgrids={}",
        "+proj=pipeline +step +proj=hgridshift +grids={}",
        {"type": "BoundCRS", "transformation": {"parameters": [{"name": "file", "value": "{}"}]}},
    ],
)
def test_a_pipe_that_the_crs_of_a_table_names_is_never_opened(tmp_path, text):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = tmp_path / "pairs.parquet"
    geopandas.GeoDataFrame({"before": ["a"], "after": ["b"]}, geometry=[box(0, 0, 1, 1)]).to_parquet(path)
    content = pq.read_table(path)
    geo = json.loads(content.schema.metadata[b"geo"])
    geo["columns"]["geometry"]["crs"] = json.loads(json.dumps(text).replace("{}", str(pipe)))
    pq.write_table(content.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    with pytest.raises((PairTableInvalid, UnsafeReference)):
        read_pairs(path)
