"""Draw two changes into a layer in QGIS, the first with words; run by the system's Python, which has QGIS.

    python3 qgis_draw.py SOURCE WEST SOUTH SIDE CAPTION

Each is a square of SIDE in the layer's units; the second lies a side east of the first. Prints as JSON how
many changes the layer has then.
"""

import json
import sys

from qgis.core import QgsApplication, QgsFeature, QgsGeometry, QgsRectangle, QgsVectorLayer, edit


def main(source, west, south, side, caption):
    """Draw and save."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
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
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:5]), sys.argv[5])
