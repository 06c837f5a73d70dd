"""Read the features of a layer in QGIS; run by the system's Python, which has QGIS.

    python3 qgis_read.py SOURCE PROVIDER

Prints as JSON what QGIS read: attributes as they are, geometries as well-known binary in hexadecimal digits.
"""

import json
import sys

from qgis.core import NULL, QgsApplication, QgsVectorLayer


def plain(value):
    """Return an attribute as JSON has it."""
    if value == NULL or value is None:
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [plain(one) for one in value]
    # A date, which QGIS takes from texts that look like one.
    return value.toString("yyyy-MM-dd")


def main(source, provider):
    """Print the rows of ``source``."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
    layer = QgsVectorLayer(source, "changes", provider)
    names = layer.fields().names()
    rows = [
        {
            "fid": feature.id(),
            "geometry": bytes(feature.geometry().asWkb()).hex(),
            "properties": {name: plain(feature[name]) for name in names},
        }
        for feature in layer.getFeatures()
    ]
    print(json.dumps({"valid": layer.isValid(), "crs": layer.crs().authid(), "rows": rows}))
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
