"""Read, draw and open layers and projects in QGIS; run by the system's Python, which has QGIS.

    python3 qgis_layers.py render REPORT PICTURE [BACKGROUND]   load a report with its style; - draws nothing
    python3 qgis_layers.py open_project PROJECT PICTURE
    python3 qgis_layers.py draw SOURCE WEST SOUTH SIDE CAPTION  add two changes

Each prints JSON.
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
    QgsFeature,
    QgsGeometry,
    QgsLabelingEngineSettings,
    QgsLayerTreeModel,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsProject,
    QgsRasterLayer,
    QgsRectangle,
    QgsVectorLayer,
    edit,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor

WIDTH, HEIGHT = 1000, 800


def start_qgis(gui=False):
    """Start QGIS and return its application, which must outlive every layer."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], gui)
    application.initQgis()
    return application


def render(report, picture, background=None):
    """Draw ``report`` to ``picture`` and print what was loaded."""
    _application = start_qgis()
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
                "aliases": layer.attributeAliases(),
                "choices": {
                    field.name(): [
                        name
                        for one in layer.editorWidgetSetup(number).config().get("map", [])
                        for name in one
                    ]
                    for number, field in enumerate(layer.fields())
                    if layer.editorWidgetSetup(number).type() == "ValueMap"
                },
                "times": times(layer),
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


def times(layer):
    """From when each change is shown by the temporal controller, and whether that is on for the layer."""
    properties = layer.temporalProperties()
    context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
    found = []
    for feature in layer.getFeatures():
        context.setFeature(feature)
        value = QgsExpression(properties.startExpression()).evaluate(context)
        found.append(value.toString("yyyy-MM-dd") if hasattr(value, "toString") else None)
    return [properties.isActive(), found]


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


def open_project(path, picture):
    """Draw the project as it opens to ``picture`` and print what was read."""
    _application = start_qgis()
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
    model = QgsLayerTreeModel(project.layerTreeRoot())
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
                "legend": [
                    node.data(0) for node in model.layerLegendNodes(project.layerTreeRoot().children()[0])
                ],
                "cuts_labels": project.labelingEngineSettings().testFlag(
                    QgsLabelingEngineSettings.UsePartialCandidates
                ),
                "bookmarks": [
                    [mark.name(), mark.group(), mark.extent().xMinimum(), mark.extent().crs().authid()]
                    for mark in project.bookmarkManager().bookmarks()
                ],
                "view": [view.xMinimum(), view.yMinimum(), view.xMaximum(), view.yMaximum()],
                "absolute": project.readBoolEntry("Paths", "/Absolute", True)[0],
            }
        )
    )


def draw(source, west, south, side, caption):
    """Draw two squares into a layer, the first with a caption, and print how many changes it has then.

    ``side`` is in the layer's units; the second square lies a side east of the first.
    """
    west, south, side = float(west), float(south), float(side)
    _application = start_qgis()
    layer = QgsVectorLayer(source, "changes", "ogr")
    with edit(layer):
        for number, words in enumerate((caption, None)):
            drawn = QgsFeature(layer.fields())
            left = west + 2 * number * side
            square = QgsRectangle(left, south, left + side, south + side)
            geometry = QgsGeometry.fromRect(square)
            geometry.convertToMultiType()
            drawn.setGeometry(geometry)
            if words:
                drawn["caption"] = words
            layer.addFeature(drawn)
    print(json.dumps({"changes": layer.featureCount()}))


if __name__ == "__main__":
    {"render": render, "open_project": open_project, "draw": draw}[sys.argv[1]](*sys.argv[2:])
    sys.stdout.flush()
