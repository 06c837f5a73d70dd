"""Show a map tip as QGIS 3.22 does, in WebKit; run by the system's Python, which has QGIS.

    python3 qgis_tip.py REPORT PICTURE

The tip is that of the first change. Prints as JSON its HTML, and how many pictures in it were decoded.
"""

import json
import sys

from qgis.core import (
    QgsApplication,
    QgsExpression,
    QgsExpressionContext,
    QgsExpressionContextUtils,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QEventLoop, QSize, Qt
from qgis.PyQt.QtGui import QImage, QPainter
from qgis.PyQt.QtWebKitWidgets import QWebPage


def main(report, picture):
    """Draw the tip to ``picture``."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], True)
    application.initQgis()
    layer = QgsVectorLayer(report, "changes", "ogr")
    layer.loadDefaultStyle()
    context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
    context.setFeature(next(layer.getFeatures()))
    tip = QgsExpression.replaceExpressionText(layer.mapTipTemplate(), context)
    page, loop = QWebPage(), QEventLoop()
    page.loadFinished.connect(loop.quit, Qt.QueuedConnection)  # without pictures it is loaded at once
    page.setViewportSize(QSize(400, 640))
    page.mainFrame().setHtml(tip)
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
    print(json.dumps({"tip": tip, "widths": shown}))
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
