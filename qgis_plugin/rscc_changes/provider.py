"""The plugin, and its provider: the list of algorithms, and the one setting."""

from __future__ import annotations

from pathlib import Path

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsApplication, QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .algorithms import Batch, Caption, CheckInstallation, Inspect
from .base import SETTING

_ICON = str(Path(__file__).with_name("icon.svg"))


class Provider(QgsProcessingProvider):
    """Algorithms that run the command ``rscc``; QGIS calls these methods."""

    def id(self):
        return "rscc"

    def name(self):
        return "rscc"

    def icon(self):
        return QIcon(_ICON)

    def load(self):
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        where = "Command rscc, or the folder of its environment; empty: searched"
        ProcessingConfig.addSetting(Setting(self.name(), SETTING, where, "", valuetype=Setting.STRING))
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self):
        ProcessingConfig.removeSetting(SETTING)

    def loadAlgorithms(self):
        for algorithm in (Caption(), Inspect(), Batch(), CheckInstallation()):
            self.addAlgorithm(algorithm)

    def defaultVectorFileExtension(self, hasGeometry=True):
        return "gpkg"

    def supportedOutputVectorLayerExtensions(self):
        return ["gpkg", "geojson", "fgb"]


class Plugin:
    """The object that QGIS loads; it calls these methods."""

    def __init__(self):
        self._provider = None

    def initProcessing(self):
        self._provider = Provider()
        QgsApplication.processingRegistry().addProvider(self._provider)

    initGui = initProcessing

    def unload(self):
        if self._provider is not None:
            QgsApplication.processingRegistry().removeProvider(self._provider)
            self._provider = None
