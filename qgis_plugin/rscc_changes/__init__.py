"""The QGIS plugin of rscc: its commands as algorithms of the Processing toolbox."""

from __future__ import annotations


def classFactory(iface):
    """Return the plugin; ``iface`` is the window of QGIS, None without one."""
    from .provider import Plugin

    return Plugin()
