"""Compare an older commit with the present tree on one pair: time and reports; prints Markdown.

    python benchmarks/old_commit.py COMMIT BEFORE AFTER [--rounds 5] [--option WORD ...] [--json FILE]

The commit is checked out in a temporary folder, with its weights, and runs on the same dependencies.
Both run from the shell in turns. ``--option`` is a further argument of ``rscc caption`` of both,
``--new-option`` of the present tree only. Times are medians of whole processes; IoU is that of the unions of
all outlines, in degrees.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import shape
from timing import HERE, Pair, from_shell, in_turns, medians, write_json

from rscc.evaluation.markdown import table

Collection = dict[str, Any]


@contextmanager
def checked_out(commit: str, repository: Path = HERE) -> Iterator[Path]:
    """Yield a temporary folder with the tree of a commit.

    Raises:
        CalledProcessError: there is no such commit.
    """
    git = ["git", "-C", str(repository), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def outlines_of(collection: Collection) -> list[shapely.Geometry]:
    """Return all polygons of a report."""
    return [part for one in collection["features"] for part in shapely.get_parts(shape(one["geometry"]))]


def compare(old: Collection, new: Collection) -> dict[str, float]:
    """Return the numbers of changes and outlines of two reports, and the IoU of their unions (empty: 1)."""
    outlines = outlines_of(old), outlines_of(new)
    first, second = (shapely.union_all(shapely.make_valid(some)) for some in outlines)
    together = shapely.area(shapely.union(first, second))
    return {
        "old_changes": len(old["features"]),
        "new_changes": len(new["features"]),
        "old_outlines": len(outlines[0]),
        "new_outlines": len(outlines[1]),
        "iou": float(shapely.area(shapely.intersection(first, second)) / together) if together else 1.0,
    }


def measure(
    old: Path, pair: Pair, rounds: int, options: Sequence[str] = (), new_options: Sequence[str] = ()
) -> dict[str, Any]:
    """Time both trees on a pair and compare their reports."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Path(folder) / f"{name}.geojson" for name in ("old", "new"))
        seconds = in_turns(
            {
                "old": lambda: from_shell(pair, first, options, old),
                "new": lambda: from_shell(pair, second, [*options, *new_options]),
            },
            rounds,
        )
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in (first, second)]
    return {"seconds": seconds, "medians": medians(seconds), **compare(*reports)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--option", action="append", default=[], help="further word for both, as --option=-q")
    parser.add_argument("--new-option", action="append", default=[], help="further word for the present tree")
    parser.add_argument("--json", type=Path, help="also write what was measured")
    asked = parser.parse_args(arguments)
    pair = Pair.of(asked.before, asked.after)
    with checked_out(asked.commit) as tree:
        found = measure(tree, pair, asked.rounds, asked.option, asked.new_option)
    write_json(asked.json, {"commit": asked.commit, "pixels": pair.pixels, "km2": pair.km2, **found})
    rows = [
        [
            title,
            f"{found['medians'][name]:.2f}",
            f"{pair.km2_per_minute(found['medians'][name]):.2f}",
            str(found[f"{name}_changes"]),
            str(found[f"{name}_outlines"]),
        ]
        for name, title in (("old", asked.commit), ("new", "present tree"))
    ]
    print(table(["tree", "s", "km2/min", "changes", "outlines"], rows))
    ratio = found["medians"]["old"] / found["medians"]["new"]
    print(f"\n{ratio:.2f} times faster; IoU of the unions of all outlines {found['iou']:.4f}")


if __name__ == "__main__":
    main()
