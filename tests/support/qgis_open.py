"""Open a project in QGIS and draw it; run by the system's Python, which has QGIS.

    python3 qgis_open.py PROJECT PICTURE

Prints as JSON what QGIS made of it.
"""

import json
import sys

from qgis.core import (
    QgsApplication,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsProject,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor


def main(path, picture):
    """Draw the project as it opens to ``picture`` and print what was read."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
    project = QgsProject.instance()
    read = project.read(path)
    layers = project.layerTreeRoot().layerOrder()
    view = project.viewSettings().defaultViewExtent()
    settings = QgsMapSettings()
    settings.setLayers(layers)
    settings.setDestinationCrs(project.crs())
    settings.setExtent(view)
    settings.setOutputSize(QSize(600, 500))
    settings.setBackgroundColor(QColor(255, 255, 255))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    job.renderedImage().save(picture)
    print(
        json.dumps(
            {
                "read": read,
                "crs": project.crs().authid(),
                "layers": [
                    {
                        "name": layer.name(),
                        "valid": layer.isValid(),
                        "source": layer.source(),
                        "crs": layer.crs().authid(),
                        "renderer": layer.renderer().type() if layer.renderer() else None,
                    }
                    for layer in layers
                ],
                "labels": [layer.labelsEnabled() for layer in layers if hasattr(layer, "labelsEnabled")],
                "tip": [bool(layer.mapTipTemplate()) for layer in layers if hasattr(layer, "mapTipTemplate")],
                "limits": [
                    [band(layer).minimumValue(), band(layer).maximumValue()]
                    for layer in layers[1:]
                    for band in (lambda layer: layer.renderer().redContrastEnhancement(),)
                    if layer.renderer().type() == "multibandcolor" and band(layer)
                ],
                "bookmarks": [
                    [mark.name(), mark.group(), mark.extent().xMinimum(), mark.extent().crs().authid()]
                    for mark in project.bookmarkManager().bookmarks()
                ],
                "view": [view.xMinimum(), view.yMinimum(), view.xMaximum(), view.yMaximum()],
                "absolute": project.readBoolEntry("Paths", "/Absolute", True)[0],
            }
        )
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
