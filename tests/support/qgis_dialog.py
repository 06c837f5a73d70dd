"""Open the dialog of the plugin's "Caption changes" in the QGIS of the system and keep a picture of it.

QT_QPA_PLATFORM=offscreen python3 qgis_dialog.py PLUGIN_FOLDER BEFORE AFTER PICTURE
"""

import json
import os
import sys

from qgis.core import QgsApplication
from qgis.gui import QgsMapCanvas


class Window:
    """What the dialog asks of QGIS's main window: a map, and else nothing."""

    def __init__(self):
        self.canvas = QgsMapCanvas()

    def mapCanvas(self):
        return self.canvas

    def __getattr__(self, name):
        return lambda *_, **__: None


def main(folder, before, after, picture):
    """Write the picture."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], True)
    application.initQgis()
    sys.path[:0] = ["/usr/share/qgis/python/plugins", folder]
    from processing.core.Processing import Processing

    Processing.initialize()
    import rscc_changes

    plugin = rscc_changes.classFactory(None)
    plugin.initProcessing()
    import qgis.utils

    qgis.utils.iface = Window()
    from processing.gui.AlgorithmDialog import AlgorithmDialog

    dialog = AlgorithmDialog(QgsApplication.processingRegistry().createAlgorithmById("rscc:caption"))
    dialog.setParameters({"BEFORE": before, "AFTER": after})
    dialog.resize(900, 620)
    dialog.show()
    application.processEvents()
    assert dialog.grab().save(picture)
    print(json.dumps({"title": dialog.windowTitle()}), flush=True)
    # Qt would take the window apart in an order of its own.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
