"""Review and fine-tune: verdicts on changes become training pairs.

Usage: python examples/review_and_tune.py [FOLDER]        (needs pip install '.[train]'; takes some minutes)

Reviewers mark changes in the page of a report and download their marks. Here the known truth replaces them: a
change that overlaps it is confirmed, any other is in the wrong place.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import geopandas
from make_demo_scene import DemoScene, make_scene
from own_model import tune
from run_rscc import run_rscc

import rscc
from workflows.report.record import run_id

SITES = 3


def main(folder: Path) -> Path:
    """Describe some scenes, review the reports, and return a folder of training pairs."""
    reports = []
    for site in range(SITES):
        scene = make_scene(folder / f"site_{site}", seed=site, size=(600, 520), site=site)
        report = rscc.caption(scene.before, scene.after, group_distance=0.0)
        reports.append(report.save(folder / f"site_{site}.geojson", overwrite=True))
        run_rscc("review", reports[-1], marks_of(report, scene, folder / f"site_{site}_marks.json"))
    run_rscc("review", "--export", "levir-cc", folder / "pairs", *reports)
    return folder / "pairs"


def marks_of(report: rscc.Report, scene: DemoScene, path: Path) -> Path:
    """Write a verdict for every change, as the page saves them."""
    truth = geopandas.read_file(scene.truth_polygons).union_all()
    now = datetime.now(UTC).isoformat()
    marks = [
        {"id": change.id, "time": now, "reviewer": "the truth"}
        | {"verdict": "confirmed" if change.geometry.intersects(truth) else "wrong place"}
        for change in report.changes
    ]
    path.write_text(json.dumps({"report": run_id(report.run), "marks": marks}))
    return path


if __name__ == "__main__":
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/review")
    print(tune(main(work), work / "run"))
