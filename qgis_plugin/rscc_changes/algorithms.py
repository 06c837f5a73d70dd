"""The algorithms of the toolbox."""

from __future__ import annotations

import os

from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsProcessing,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingOutputNumber,
    QgsProcessingOutputString,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterExtent,
    QgsProcessingParameterFile,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterMapLayer,
    QgsProcessingParameterNumber,
    QgsProcessingParameterString,
    QgsProcessingParameterVectorDestination,
    QgsProcessingUtils,
    QgsProviderRegistry,
)

from .base import RsccAlgorithm
from .command import MISSING, CommandMissing, plain

_WGS84 = "EPSG:4326"
_FLAGS = {
    "ALIGN": "Correct the measured offset between the scenes",
    "NORMALIZE": "Match the brightness of AFTER to BEFORE",
    "FORCE": "Process scenes that are too coarse for the model",
}
_DATES = {"DATE_BEFORE": "Date of BEFORE", "DATE_AFTER": "Date of AFTER"}
# Exit codes of rscc inspect where captioning would be refused, and of rscc batch where pairs failed.
_REFUSED, _SOME_FAILED = 2, 3
_Number = QgsProcessingParameterNumber
_REAL, _INTEGER = _Number.Type.Double, _Number.Type.Integer


class Caption(RsccAlgorithm):
    """The command ``rscc caption``."""

    key, title = "caption", "Caption changes"
    help = (
        "Finds what changed between two scenes and describes it: a layer of changes, outlined, counted, "
        "each with a sentence. The scenes may differ in grid, resolution and reference system."
    )
    stages = (("tiles", 85), ("outlines", 90), ("captions", 100))
    stopped = "Stopped; no report was written."

    def initAlgorithm(self, configuration=None):
        self.add_pair()
        self.addParameter(QgsProcessingParameterExtent("EXTENT", "Only this part", optional=True))
        polygons = [QgsProcessing.SourceType.TypeVectorPolygon, QgsProcessing.SourceType.TypeRaster]
        given = QgsProcessingParameterMapLayer("GIVEN", "Describe these changes instead", optional=True)
        given.setDataTypes(polygons)
        self.addParameter(given)
        self.addParameter(_Number("MIN_AREA", "Smallest change, m²", _REAL, optional=True, minValue=0))
        share = {"optional": True, "minValue": 0.0001, "maxValue": 0.9999}
        self.add_advanced(_Number("THRESHOLD", "Threshold", _REAL, **share))
        self.add_advanced(
            _Number("GROUP_DISTANCE", "Group outlines up to, m", _REAL, optional=True, minValue=0)
        )
        for name, label in _FLAGS.items():
            self.add_advanced(QgsProcessingParameterBoolean(name, label, False))
        for name, label in _DATES.items():
            self.add_advanced(QgsProcessingParameterString(name, label, optional=True))
        kind = QgsProcessing.SourceType.TypeVectorPolygon
        self.addParameter(QgsProcessingParameterVectorDestination("OUTPUT", "Changes", kind))
        self.addOutput(QgsProcessingOutputNumber("CHANGES", "Number of changes"))
        self.addOutput(QgsProcessingOutputNumber("AREA", "Their area, m²"))

    def processAlgorithm(self, parameters, context, feedback):
        target = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        arguments = ["caption", "--progress", "json", "--overwrite", "-o", target]
        for name in ("MIN_AREA", "THRESHOLD", "GROUP_DISTANCE"):
            if parameters.get(name) is not None:
                arguments += [_option(name), repr(self.parameterAsDouble(parameters, name, context))]
        arguments += [_option(name) for name in _FLAGS if self.parameterAsBoolean(parameters, name, context)]
        for name in _DATES:
            if date := self.parameterAsString(parameters, name, context).strip():
                arguments += [_option(name), date]
        degrees = QgsCoordinateReferenceSystem(_WGS84)
        box = self.parameterAsExtent(parameters, "EXTENT", context, degrees)
        if not box.isNull():
            corners = (box.xMinimum(), box.yMinimum(), box.xMaximum(), box.yMaximum())
            arguments += ["--bbox", ",".join(f"{value:.8f}" for value in corners)]
        if (given := self.parameterAsLayer(parameters, "GIVEN", context)) is not None:
            arguments += ["--changes", _file_of(given)]
        facts = self.execute([*arguments, *self.pair(parameters, context)], feedback).facts
        self.style(target, context)
        return {"OUTPUT": target, "CHANGES": facts.get("changes"), "AREA": facts.get("area_m2")}


class Inspect(RsccAlgorithm):
    """The command ``rscc inspect``."""

    key, title = "inspect", "Inspect pair"
    help = (
        "Checks two scenes: their overlap, their offset, the time and memory that captioning would take, and "
        "whether it would be refused. Nothing is written."
    )

    def initAlgorithm(self, configuration=None):
        self.add_pair()
        self.addOutput(QgsProcessingOutputString("TEXT", "The findings"))

    def processAlgorithm(self, parameters, context, feedback):
        arguments = ["inspect", *self.pair(parameters, context)]
        result = self.execute(arguments, feedback, accepted=(0, _REFUSED))
        for line in result.output.splitlines():
            feedback.pushInfo(plain(line) and line)
        if result.code and not result.output:
            raise QgsProcessingException(result.error)
        if result.code:
            feedback.reportError(result.error)
        return {"TEXT": result.output}


class Batch(RsccAlgorithm):
    """The command ``rscc batch``."""

    key, title = "batch", "Batch"
    help = (
        "Processes a table of pairs, as rscc pairs writes it, into an archive: a report of each pair, and "
        "one layer of all changes. Run again with the same folder, it continues where it ended."
    )
    stages = (("scenes", 2), ("pairs", 97), ("layers", 100))
    stopped = "Stopped; finished pairs are kept, run it again to continue."

    def initAlgorithm(self, configuration=None):
        tables = "Tables (*.csv *.tsv *.parquet)"
        self.addParameter(QgsProcessingParameterFile("PAIRS", "Table of pairs", fileFilter=tables))
        self.add_model()
        self.addParameter(_Number("WORKERS", "Worker processes", _INTEGER, optional=True, minValue=1))
        self.addParameter(QgsProcessingParameterBoolean("RETRY_FAILED", "Also retry failed pairs", False))
        self.addParameter(QgsProcessingParameterFolderDestination("ARCHIVE", "Folder of the archive"))
        self.addOutput(QgsProcessingOutputNumber("DONE", "Pairs done"))
        self.addOutput(QgsProcessingOutputNumber("FAILED", "Pairs that failed"))

    def processAlgorithm(self, parameters, context, feedback):
        folder = self.parameterAsString(parameters, "ARCHIVE", context)
        arguments = ["batch", "--progress", "json", "--out", folder]
        arguments += ["--model", self.parameterAsString(parameters, "MODEL", context)]
        if parameters.get("WORKERS") is not None:
            arguments += ["--workers", self.parameterAsInt(parameters, "WORKERS", context)]
        if self.parameterAsBoolean(parameters, "RETRY_FAILED", context):
            arguments.append("--retry-failed")
        arguments += ["--", self.parameterAsFile(parameters, "PAIRS", context)]
        result = self.execute(arguments, feedback, accepted=(0, _SOME_FAILED))
        done, failed = result.facts.get("done"), result.facts.get("failed")
        if failed:
            feedback.pushWarning(
                f"Pairs that failed: {failed}; in a terminal, rscc status {folder} --failed shows why"
            )
        if kept := result.facts.get("kept"):
            feedback.pushWarning(
                f"Pairs that keep an older report, which people marked: {', '.join(kept)}; "
                "in a terminal, rscc batch --overwrite replaces them"
            )
        self._load_layers(folder, context)
        return {"ARCHIVE": folder, "DONE": done, "FAILED": failed}

    def _load_layers(self, folder, context):
        # In qgis_process there is no project to load them into.
        for name in ("pairs", "changes") if context.project() is not None else ():
            source = f"{os.path.join(folder, 'changes.gpkg')}|layername={name}"
            hint = QgsProcessingUtils.LayerHint.Vector
            details = QgsProcessingContext.LayerDetails(name, context.project(), name, hint)
            context.addLayerToLoadOnCompletion(source, details)
            self.style(source, context)


class CheckInstallation(RsccAlgorithm):
    """Finds the command; can always be run, because it says what to do."""

    key, title = "check", "Check installation"
    help = "Shows where the command rscc was found, its version and models; or how to install it."

    def initAlgorithm(self, configuration=None):
        self.addOutput(QgsProcessingOutputString("COMMAND", "The command"))
        self.addOutput(QgsProcessingOutputString("VERSION", "Its version"))

    def canExecute(self):
        return True, ""

    def processAlgorithm(self, parameters, context, feedback):
        try:
            command = self.command()
        except CommandMissing as error:
            raise QgsProcessingException(str(error)) from error
        version = self.execute(["--version"], feedback).output.strip()
        if not version.startswith("rscc "):
            raise QgsProcessingException(f"{command} is another program of this name.\n{MISSING}")
        feedback.pushInfo(plain(version))
        for line in self.execute(["models"], feedback).output.splitlines():
            feedback.pushInfo(plain(line))
        return {"COMMAND": command, "VERSION": plain(version)}


def _file_of(layer):
    """Return the file of a layer as rscc names it; of several layers in a file this one."""
    if layer.providerType() not in ("ogr", "gdal"):
        raise QgsProcessingException(f"{layer.name()}: rscc reads files; save this layer as one first")
    parts = QgsProviderRegistry.instance().decodeUri(layer.providerType(), layer.source())
    if parts.get("subset"):
        raise QgsProcessingException(f"{layer.name()}: rscc does not know its filter; save it as a file")
    name = parts.get("layerName")
    return parts["path"] + (f"|layername={name}" if name else "")


def _option(name):
    return "--" + name.lower().replace("_", "-")
