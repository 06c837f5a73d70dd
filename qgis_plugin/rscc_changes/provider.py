"""The provider: the list of algorithms, and the one setting."""

from __future__ import annotations

from pathlib import Path

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .algorithms import Batch, Caption, CheckInstallation, Inspect
from .base import SETTING

_ICON = str(Path(__file__).with_name("icon.svg"))


class Provider(QgsProcessingProvider):
    """Algorithms that run the command ``rscc``; the names of the methods are those of QGIS."""

    def id(self):
        """Return what stands before the colon in ``rscc:caption``."""
        return "rscc"

    def name(self):
        """Return what the toolbox shows."""
        return "rscc"

    def icon(self):
        """Return the picture beside it."""
        return QIcon(_ICON)

    def load(self):
        """Begin: make the setting known."""
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        where = "Command rscc, or the folder of its environment; empty: looked for"
        ProcessingConfig.addSetting(Setting(self.name(), SETTING, where, "", valuetype=Setting.STRING))
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self):
        """End."""
        ProcessingConfig.removeSetting(SETTING)

    def loadAlgorithms(self):
        """Add the algorithms."""
        for algorithm in (Caption(), Inspect(), Batch(), CheckInstallation()):
            self.addAlgorithm(algorithm)

    def defaultVectorFileExtension(self, hasGeometry=True):
        """Return the suffix of temporary reports."""
        return "gpkg"

    def supportedOutputVectorLayerExtensions(self):
        """Return the formats of a report that QGIS opens."""
        return ["gpkg", "geojson", "fgb"]
