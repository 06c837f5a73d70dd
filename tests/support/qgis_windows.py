"""Map tips, the plugin's dialog and its algorithms in QGIS; run by the system's Python, which has QGIS.

    python3 qgis_windows.py tip REPORT PICTURE
    python3 qgis_windows.py dialog PLUGIN_FOLDER BEFORE AFTER PICTURE
    python3 qgis_windows.py plugin PLUGIN_FOLDER BEFORE AFTER REPORT PAIRS ARCHIVE COARSE

Each prints JSON. The first two need QT_QPA_PLATFORM=offscreen where there is no screen.
"""

import json
import os
import sys

from qgis.core import (
    QgsApplication,
    QgsExpression,
    QgsExpressionContext,
    QgsExpressionContextUtils,
    QgsProcessingContext,
    QgsProcessingFeedback,
    QgsProcessingOutputLayerDefinition,
    QgsProject,
    QgsVectorLayer,
)
from qgis.gui import QgsMapCanvas
from qgis_layers import start_qgis


def tip(report, picture):
    """Draw the map tip of the first change as QGIS 3.22 does, in WebKit; print its HTML and image widths."""
    from qgis.PyQt.QtCore import QEventLoop, QSize, Qt
    from qgis.PyQt.QtGui import QImage, QPainter
    from qgis.PyQt.QtWebKitWidgets import QWebPage

    _application = start_qgis(gui=True)
    layer = QgsVectorLayer(report, "changes", "ogr")
    layer.loadDefaultStyle()
    context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
    context.setFeature(next(layer.getFeatures()))
    html = QgsExpression.replaceExpressionText(layer.mapTipTemplate(), context)
    page, loop = QWebPage(), QEventLoop()
    page.loadFinished.connect(loop.quit, Qt.QueuedConnection)  # without pictures it is loaded at once
    page.setViewportSize(QSize(400, 640))
    page.mainFrame().setHtml(html)
    loop.exec_()
    shown = page.mainFrame().evaluateJavaScript(
        "[].map.call(document.images, function (one) { return one.naturalWidth; })"
    )
    image = QImage(page.viewportSize(), QImage.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    page.mainFrame().render(painter)
    painter.end()
    image.save(picture)
    print(json.dumps({"tip": html, "widths": shown}))


class Window:
    """What the dialog asks of QGIS's main window: a map, and else nothing."""

    def __init__(self):
        self.canvas = QgsMapCanvas()

    def mapCanvas(self):
        return self.canvas

    def __getattr__(self, name):
        return lambda *_, **__: None


def dialog(folder, before, after, picture):
    """Open the dialog of "Caption changes" and save a picture of it."""
    _application = start_qgis(gui=True)
    sys.path[:0] = ["/usr/share/qgis/python/plugins", folder]
    from processing.core.Processing import Processing

    Processing.initialize()
    import rscc_changes

    loaded = rscc_changes.classFactory(None)
    loaded.initProcessing()
    import qgis.utils

    qgis.utils.iface = Window()
    from processing.gui.AlgorithmDialog import AlgorithmDialog

    shown = AlgorithmDialog(QgsApplication.processingRegistry().createAlgorithmById("rscc:caption"))
    shown.setParameters({"BEFORE": before, "AFTER": after})
    shown.resize(900, 620)
    shown.show()
    _application.processEvents()
    assert shown.grab().save(picture)
    print(json.dumps({"title": shown.windowTitle()}), flush=True)
    # Qt would take the window apart in an order of its own.
    os._exit(0)


class Listener(QgsProcessingFeedback):
    """Records feedback; optionally cancels at the first progress."""

    def __init__(self, cancels):
        super().__init__(False)
        self.percents, self.errors, self.infos, self.cancels = [], [], [], cancels
        self.progressChanged.connect(self.take)

    def take(self, percent):
        self.percents.append(percent)
        if self.cancels:
            self.cancel()

    def reportError(self, error, fatalError=False):
        self.errors.append(error)

    def pushInfo(self, info):
        self.infos.append(info)


def plugin(folder, before, after, report, pairs, archive, coarse):
    """Run the algorithms of the plugin as the toolbox does; print how the runs went.

    A caption and a batch whose layers are loaded, a caption and a batch that are cancelled at their first
    progress, an inspection of the scene before and one that is too coarse.
    """
    _application = start_qgis()
    sys.path[:0] = ["/usr/share/qgis/python/plugins", folder]
    from processing.core.Processing import Processing
    from processing.gui.Postprocessing import handleAlgorithmResults

    Processing.initialize()
    import rscc_changes

    loaded = rscc_changes.classFactory(None)
    loaded.initProcessing()
    registry = QgsApplication.processingRegistry()
    algorithm = registry.algorithmById("rscc:caption")
    pair = {"BEFORE": before, "AFTER": after, "MIN_AREA": 25.5, "GROUP_DISTANCE": 0.0, "DATE_AFTER": "2020"}

    def run(algorithm, values, cancels=False):
        context, listener = QgsProcessingContext(), Listener(cancels)
        context.setProject(QgsProject.instance())
        instance = algorithm.create()
        results, good = instance.run(values, context, listener)
        if good:
            handleAlgorithmResults(instance, context, listener)
        heard = {name: getattr(listener, name) for name in ("percents", "errors", "infos")}
        return {"good": good, "results": results, **heard}

    output = QgsProcessingOutputLayerDefinition(report, QgsProject.instance())
    told = {"loaded": run(algorithm, {**pair, "OUTPUT": output})}
    table = {"PAIRS": pairs, "ARCHIVE": archive, "WORKERS": 1}
    told["batch"] = run(registry.algorithmById("rscc:batch"), table)
    told["layers"] = [
        [layer.name(), layer.renderer().type(), layer.labelsEnabled(), layer.featureCount()]
        for layer in QgsProject.instance().mapLayers().values()
    ]
    told["cancelled"] = run(algorithm, {**pair, "OUTPUT": report.replace("r.gpkg", "never.gpkg")}, True)
    table["ARCHIVE"] = f"{archive}_stopped"
    told["batch_cancelled"] = run(registry.algorithmById("rscc:batch"), table, True)
    inspect = registry.algorithmById("rscc:inspect")
    told["refused"] = run(inspect, {"BEFORE": before, "AFTER": coarse})
    told["unknown"] = run(inspect, {"BEFORE": before, "AFTER": after, "MODEL": "no-such-model"})
    told["can"] = list(algorithm.canExecute())
    algorithms = registry.providerById("rscc").algorithms()
    told["algorithms"] = sorted(each.id() for each in algorithms)
    loaded.unload()
    told["unloaded"] = registry.providerById("rscc") is None
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    {"tip": tip, "dialog": dialog, "plugin": plugin}[sys.argv[1]](*sys.argv[2:])
    sys.stdout.flush()
