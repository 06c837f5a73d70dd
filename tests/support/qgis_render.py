"""Load a report in QGIS with its style and draw it; run by the system's Python, which has QGIS.

    python3 qgis_render.py REPORT PICTURE [BACKGROUND]

Prints as JSON what QGIS made of the layer; the picture shows its extent with a margin, on white or
on the background raster. The picture - is not drawn.
"""

import json
import sys

from qgis.core import (
    QgsApplication,
    QgsCoordinateReferenceSystem,
    QgsCoordinateTransform,
    QgsExpression,
    QgsExpressionContext,
    QgsExpressionContextUtils,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsProject,
    QgsRasterLayer,
    QgsRectangle,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor

WIDTH, HEIGHT = 1000, 800


def main(report, picture, background=None):
    """Draw ``report`` to ``picture`` and print what was loaded."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
    layer = QgsVectorLayer(report, "changes", "ogr")
    message, loaded = layer.loadNamedStyle(layer.styleURI())
    layers = [layer]
    if background:
        layers.append(QgsRasterLayer(background, "background"))
    mercator = QgsCoordinateReferenceSystem("EPSG:3857")
    settings = QgsMapSettings()
    settings.setLayers(layers)
    settings.setDestinationCrs(mercator)
    settings.setOutputSize(QSize(WIDTH, HEIGHT))
    settings.setBackgroundColor(QColor(255, 255, 255))
    to_mercator = QgsCoordinateTransform(layer.crs(), mercator, QgsProject.instance())
    extent = QgsRectangle(0, 0, 1, 1) if layer.featureCount() == 0 else to_mercator.transform(layer.extent())
    extent.scale(1.2)
    settings.setExtent(extent)
    if picture != "-":
        job = QgsMapRendererParallelJob(settings)
        job.start()
        job.waitForFinished()
        job.renderedImage().save(picture)
    # Where the middle of each polygon lies in the picture, so that its colour can be looked at.
    shown = settings.mapToPixel()
    points = []
    for feature in layer.getFeatures():
        inside = feature.geometry().pointOnSurface()
        inside.transform(to_mercator)
        point = shown.transform(inside.asPoint())
        points.append([point.x(), point.y()])
    renderer = layer.renderer()  # None without features: a table has no symbols
    rules = label_rules(layer)
    texts = [rule["expression"] for rule in rules]
    context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
    said = []
    for feature in layer.getFeatures():
        context.setFeature(feature)
        category = QgsExpression(renderer.classAttribute()) if renderer else None
        said.append(
            {
                "category": category.evaluate(context) if category else None,
                "labels": [QgsExpression(text).evaluate(context) for text in texts],
                "tip": QgsExpression.replaceExpressionText(layer.mapTipTemplate(), context),
            }
        )
    print(
        json.dumps(
            {
                "valid": layer.isValid(),
                "features": layer.featureCount(),
                "fields": [field.name() for field in layer.fields()],
                "crs": layer.crs().authid(),
                "style": layer.styleURI(),
                "style_loaded": loaded,
                "message": message,
                "renderer": renderer.type() if renderer else None,
                "classified_by": renderer.classAttribute() if renderer and loaded else None,
                "labels": layer.labelsEnabled(),
                "rules": rules,
                "said": said,
                "points": points,
                "scale": settings.scale(),
            },
            default=lambda value: None,  # QGIS has a null of its own
        )
    )
    sys.stdout.flush()


def label_rules(layer):
    """What is written where: for each rule its expression, scales and looks."""
    labeling = layer.labeling()
    if labeling is None:
        return []
    rules = []
    for rule in labeling.rootRule().children():
        settings = rule.settings()
        # Kept in a name of its own: the buffer is only valid while its format lives.
        written = settings.format()
        rules.append(
            {
                "expression": settings.fieldName,
                "is_expression": settings.isExpression,
                "html": written.allowHtmlFormatting(),
                "scales": [rule.maximumScale(), rule.minimumScale()],
                "wrapped_after": settings.autoWrapLength,
                "buffered": written.buffer().enabled(),
                "each_part": settings.labelPerPart,
            }
        )
    return rules


if __name__ == "__main__":
    main(*sys.argv[1:])
