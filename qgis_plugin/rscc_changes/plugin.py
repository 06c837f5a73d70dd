"""Register the provider in QGIS, and remove it again."""

from __future__ import annotations

from qgis.core import QgsApplication

from .provider import Provider


class Plugin:
    """The object that QGIS loads; it calls these methods."""

    def __init__(self):
        self._provider = None

    def initProcessing(self):
        self._provider = Provider()
        QgsApplication.processingRegistry().addProvider(self._provider)

    def initGui(self):
        self.initProcessing()

    def unload(self):
        if self._provider is not None:
            QgsApplication.processingRegistry().removeProvider(self._provider)
            self._provider = None
