"""Review and fine-tune: what people say of the changes becomes pairs that a model learns from.

Usage: python examples/review_and_tune.py [FOLDER]        (needs pip install '.[train]'; takes some minutes)

People mark changes in the page of a report, which gives out a file of marks. Here the truth about the
generated scenes stands in for them: a change that overlaps it is confirmed, another is in the wrong place.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import geopandas
from make_demo_scene import DemoScene, make_scene
from own_model import tune
from run_rscc import rscc

from workflows import SceneReport, caption
from workflows.report.record import run_id

SITES = 3


def main(folder: Path) -> Path:
    """Caption some scenes, review the reports, return the folder of pairs that a model can learn from."""
    reports = []
    for site in range(SITES):
        scene = make_scene(folder / f"site_{site}", seed=site, size=(600, 520), site=site)
        report = caption(scene.before, scene.after, group_distance=0.0)
        reports.append(report.save(folder / f"site_{site}.geojson", overwrite=True))
        rscc("review", reports[-1], marks_of(report, scene, folder / f"site_{site}_marks.json"))
    rscc("review", "--export", "levir-cc", folder / "pairs", *reports)
    return folder / "pairs"


def marks_of(report: SceneReport, scene: DemoScene, path: Path) -> Path:
    """Write what a reviewer who knows the truth says of every change, as the page gives it out."""
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
