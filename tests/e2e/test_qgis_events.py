"""The project of a monitor in a real QGIS: events are drawn at their dates."""

import json
import subprocess

import pytest
from painted_series import find_squares, write_series
from qgis_runs import SYSTEM_PYTHON, environment, qgis_is_there

from workflows.monitor.monitor import run_monitor
from workflows.monitor.options import MonitorOptions

pytestmark = [pytest.mark.slow, pytest.mark.qgis]

DRAW = """
import json, sys
from qgis.core import *
from qgis.PyQt.QtCore import QDateTime, QSize
from qgis.PyQt.QtGui import QColor
app = QgsApplication([], False)
app.initQgis()
project = QgsProject.instance()
assert project.read(sys.argv[1])
layers = list(project.mapLayers().values())
events = project.mapLayersByName("events")[0]
drawn = []
for day in sys.argv[2:]:
    begin = QDateTime.fromString(day, "yyyy-MM-dd")
    settings = QgsMapSettings()
    settings.setLayers([events])
    settings.setExtent(events.extent())
    settings.setOutputSize(QSize(100, 100))
    settings.setDestinationCrs(events.crs())
    settings.setIsTemporal(True)
    settings.setTemporalRange(QgsDateTimeRange(begin, begin.addDays(1)))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    image = job.renderedImage()
    white = QColor("white")
    drawn.append(sum(image.pixelColor(x, y) != white for x in range(100) for y in range(100)))
print(json.dumps({
    "valid": all(layer.isValid() for layer in layers),
    "timed": sum(layer.temporalProperties().isActive() for layer in layers),
    "range": project.timeSettings().temporalRange().begin().toString("yyyy-MM-dd"),
    "drawn": drawn,
}))
"""


def test_the_temporal_controller_shows_events_at_their_dates(tmp_path):
    if not qgis_is_there():
        pytest.skip("the system has no QGIS")
    write_series(tmp_path / "town")
    run_monitor([str(tmp_path / "town")], tmp_path / "out", MonitorOptions(), None, finder=find_squares)
    days = ("2018-04-15", "2018-06-15", "2018-08-15", "2018-09-15")
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", DRAW, tmp_path / "out" / "events.qgz", *days],
        capture_output=True, text=True, env=environment(), timeout=300, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["valid"], said["timed"], said["range"]) == (True, 6, "2018-01-01")
    assert said["drawn"][0] == 0 and said["drawn"] == sorted(said["drawn"]) and len({*said["drawn"]}) == 4
