"""Brings the provider to QGIS and takes it away again."""

from __future__ import annotations

from qgis.core import QgsApplication

from .provider import Provider


class Plugin:
    """What QGIS loads; the names of the methods are its."""

    def __init__(self):
        self._provider = None

    def initProcessing(self):
        """Add the provider; all that QGIS calls where it has no window."""
        self._provider = Provider()
        QgsApplication.processingRegistry().addProvider(self._provider)

    def initGui(self):
        """Begin."""
        self.initProcessing()

    def unload(self):
        """End."""
        if self._provider is not None:
            QgsApplication.processingRegistry().removeProvider(self._provider)
            self._provider = None
