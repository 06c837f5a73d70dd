"""Layers of many pairs are written pair by pair: memory does not grow with the archive."""

from pathlib import Path

import pytest

# Prints by how many MB the peak of the process grew, and the peak.
CODE = """
import json, resource, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from archive_rows import change, new_claim, pair_state, report
from workflows.archive.layers import layers
from workflows.report.formats import parquet, writing

for module in (layers, parquet, writing):
    module.GROUP = 1_000

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def archive(name, count):
    claim = new_claim(Path({folder!r} + name))
    content = report(*[change(number, 12 + number / 100) for number in range(1, 11)]).encoded()
    for number in range(count):
        path = claim.folder.report(f"p{{number}}")
        path.parent.mkdir()
        path.write_bytes(content)
    return claim

def rows(count):
    return (pair_state(f"p{{number}}", number=number) for number in range(count))

# What is loaded once, and the first full groups of changes, are no growth.
layers.write_layers(archive("few", 500), lambda: rows(500))
many = archive("many", 1_500)
before = peak()
layers.write_layers(many, lambda: rows(1_500))
print(json.dumps([peak() - before, peak()]))
"""


@pytest.mark.slow
def test_more_pairs_take_no_more_memory(tmp_path, run_python, capsys):
    tests = str(Path(__file__).resolve().parents[2] / "support")
    growth, peak = run_python(CODE.format(tests=tests, folder=f"{tmp_path}/"))
    with capsys.disabled():
        print(f"\n1,500 pairs of 10 changes: {peak:.0f} MB, {growth:.0f} more than 500")
    assert growth < 15
