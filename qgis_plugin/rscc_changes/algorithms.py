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
    QgsProcessingParameterNumber,
    QgsProcessingParameterString,
    QgsProcessingParameterVectorDestination,
    QgsProcessingUtils,
)

from .base import RsccAlgorithm
from .command import MISSING, CommandMissing, plain

_WGS84 = "EPSG:4326"
_FLAGS = {
    "ALIGN": "Move AFTER onto BEFORE by the shift measured between them",
    "NORMALIZE": "Bring the light of AFTER to that of BEFORE",
    "FORCE": "Work on scenes that are coarser than the model is meant for",
}
_DATES = {"DATE_BEFORE": "Date of BEFORE", "DATE_AFTER": "Date of AFTER"}
# Exit codes of rscc inspect where captioning would be refused, of rscc batch where not all pairs were done.
_REFUSED, _NOT_ALL = 2, 3


class Caption(RsccAlgorithm):
    """The command ``rscc caption``."""

    key, title = "caption", "Caption changes"
    help = (
        "Finds what changed between two scenes and says it in words: a layer of changes, outlined, counted, "
        "each with a sentence. The scenes may differ in grid, resolution and reference system."
    )
    stages = (("tiles", 85), ("outlines", 90), ("captions", 100))
    stopped = "Stopped; no report was written."

    def initAlgorithm(self, configuration=None):
        """Say what is asked for and what comes."""
        self.add_pair()
        number, real = QgsProcessingParameterNumber, QgsProcessingParameterNumber.Type.Double
        self.addParameter(QgsProcessingParameterExtent("EXTENT", "Only this part", optional=True))
        self.addParameter(number("MIN_AREA", "Smallest change, m²", real, optional=True, minValue=0))
        self.add_advanced(
            number("THRESHOLD", "Threshold", real, optional=True, minValue=0.0001, maxValue=0.9999)
        )
        self.add_advanced(number("GROUP_DISTANCE", "Join outlines up to, m", real, optional=True, minValue=0))
        for name, words in _FLAGS.items():
            self.add_advanced(QgsProcessingParameterBoolean(name, words, False))
        for name, words in _DATES.items():
            self.add_advanced(QgsProcessingParameterString(name, words, optional=True))
        kind = QgsProcessing.SourceType.TypeVectorPolygon
        self.addParameter(QgsProcessingParameterVectorDestination("OUTPUT", "Changes", kind))
        self.addOutput(QgsProcessingOutputNumber("CHANGES", "Number of changes"))
        self.addOutput(QgsProcessingOutputNumber("AREA", "Their area, m²"))

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command."""
        target = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        words = ["caption", "--progress", "json", "--overwrite", "-o", target]
        for name in ("MIN_AREA", "THRESHOLD", "GROUP_DISTANCE"):
            if parameters.get(name) is not None:
                words += [_option(name), repr(self.parameterAsDouble(parameters, name, context))]
        words += [_option(name) for name in _FLAGS if self.parameterAsBoolean(parameters, name, context)]
        for name in _DATES:
            if date := self.parameterAsString(parameters, name, context).strip():
                words += [_option(name), date]
        degrees = QgsCoordinateReferenceSystem(_WGS84)
        box = self.parameterAsExtent(parameters, "EXTENT", context, degrees)
        if not box.isNull():
            corners = (box.xMinimum(), box.yMinimum(), box.xMaximum(), box.yMaximum())
            words += ["--bbox", ",".join(f"{value:.8f}" for value in corners)]
        done = self.execute([*words, *self.pair(parameters, context)], feedback).facts
        self.style(target, context)
        return {"OUTPUT": target, "CHANGES": done.get("changes"), "AREA": done.get("area_m2")}


class Inspect(RsccAlgorithm):
    """The command ``rscc inspect``."""

    key, title = "inspect", "Inspect pair"
    help = (
        "Says what two scenes are, what of them overlaps, how far they lie off each other, what captioning "
        "them would cost, and what would be refused. Nothing is written."
    )

    def initAlgorithm(self, configuration=None):
        """Say what is asked for and what comes."""
        self.add_pair()
        self.addOutput(QgsProcessingOutputString("TEXT", "What was found"))

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command."""
        words = ["inspect", *self.pair(parameters, context)]
        result = self.execute(words, feedback, accepted=(0, _REFUSED))
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
        "Works through a table of pairs, as rscc pairs writes it, into an archive: a report of each, and "
        "one layer of all changes. Run again with the same folder, it goes on where it ended."
    )
    stages = (("scenes", 2), ("pairs", 97), ("layers", 100))
    stopped = "Stopped; pairs that are done stay, run it again to go on."

    def initAlgorithm(self, configuration=None):
        """Say what is asked for and what comes."""
        self.addParameter(
            QgsProcessingParameterFile("PAIRS", "Table of pairs", fileFilter="Tables (*.csv *.tsv *.parquet)")
        )
        self.add_model()
        whole = QgsProcessingParameterNumber.Type.Integer
        self.addParameter(
            QgsProcessingParameterNumber("WORKERS", "Worker processes", whole, optional=True, minValue=1)
        )
        self.addParameter(QgsProcessingParameterBoolean("RETRY_FAILED", "Also take up failed pairs", False))
        self.addParameter(QgsProcessingParameterFolderDestination("ARCHIVE", "Folder of the archive"))
        self.addOutput(QgsProcessingOutputNumber("DONE", "Pairs done"))
        self.addOutput(QgsProcessingOutputNumber("FAILED", "Pairs that failed"))

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command, then have the layers loaded."""
        folder = self.parameterAsString(parameters, "ARCHIVE", context)
        words = ["batch", "--progress", "json", "--out", folder]
        words += ["--model", self.parameterAsString(parameters, "MODEL", context)]
        if parameters.get("WORKERS") is not None:
            words += ["--workers", self.parameterAsInt(parameters, "WORKERS", context)]
        if self.parameterAsBoolean(parameters, "RETRY_FAILED", context):
            words.append("--retry-failed")
        words += ["--", self.parameterAsFile(parameters, "PAIRS", context)]
        result = self.execute(words, feedback, accepted=(0, _NOT_ALL))
        done, failed = result.facts.get("done"), result.facts.get("failed")
        if failed:
            feedback.pushWarning(
                f"Pairs that failed: {failed}; in a terminal, rscc status {folder} --failed says why"
            )
        if kept := result.facts.get("kept"):
            feedback.pushWarning(
                f"Pairs that keep an older report, as people marked it: {', '.join(kept)}; "
                "in a terminal, rscc batch --overwrite replaces them"
            )
        # Without a project, as in qgis_process, there is nothing to load them into.
        for name in ("pairs", "changes") if context.project() is not None else ():
            source = f"{os.path.join(folder, 'changes.gpkg')}|layername={name}"
            hint = QgsProcessingUtils.LayerHint.Vector
            details = QgsProcessingContext.LayerDetails(name, context.project(), name, hint)
            context.addLayerToLoadOnCompletion(source, details)
            self.style(source, context)
        return {"ARCHIVE": folder, "DONE": done, "FAILED": failed}


class CheckInstallation(RsccAlgorithm):
    """Looks for the command; always to be run, since it says what to do."""

    key, title = "check", "Check installation"
    help = "Says where the command rscc was found, its version and models; and what to do where it was not."

    def initAlgorithm(self, configuration=None):
        """Say what comes."""
        self.addOutput(QgsProcessingOutputString("COMMAND", "The command"))
        self.addOutput(QgsProcessingOutputString("VERSION", "Its version"))

    def canExecute(self):
        """Return that it can be run."""
        return True, ""

    def processAlgorithm(self, parameters, context, feedback):
        """Look."""
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


def _option(name):
    return "--" + name.lower().replace("_", "-")
