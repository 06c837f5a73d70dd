"""What all algorithms share: finding and running the command, and styling its layers."""

from __future__ import annotations

from collections import deque

from processing.core.ProcessingConfig import ProcessingConfig
from qgis.core import (
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingLayerPostProcessorInterface,
    QgsProcessingParameterDefinition,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)

from .command import Cancelled, CommandMissing, Gauge, RunFailed, find_command, plain, run

SETTING = "RSCC_COMMAND"
_TOO_OLD = "This rscc does not know --progress: it is older than the plugin. Install a newer one."


class Styler(QgsProcessingLayerPostProcessorInterface):
    """Gives a loaded layer the style that rscc wrote beside it or into it."""

    def postProcessLayer(self, layer, context, feedback):
        layer.loadDefaultStyle()
        layer.triggerRepaint()


# QGIS owns each with its run, but does not keep Python from deleting it before.
_STYLERS = deque(maxlen=100)


class RsccAlgorithm(QgsProcessingAlgorithm):
    """An algorithm that runs ``rscc``; QGIS calls the methods in camel case.

    Attributes:
        key, title, help: its id in ``rscc:<id>``, its name in the toolbox, its description.
        stages: of its progress, see :class:`.command.Gauge`.
        stopped: the message after it was cancelled.
    """

    key = title = help = ""
    stopped = "Stopped."
    stages = ()

    def createInstance(self):
        return type(self)()

    def name(self):
        return self.key

    def displayName(self):
        return self.title

    def shortHelpString(self):
        return self.help

    def canExecute(self):
        try:
            self.command()
        except CommandMissing as error:
            return False, str(error)
        return True, ""

    def command(self):
        """Return the path of the command; raise CommandMissing where there is none."""
        return find_command(str(ProcessingConfig.getSetting(SETTING) or ""))

    def execute(self, arguments, feedback, accepted=(0,)):
        """Run the command and show its progress; raise errors as QgsProcessingException."""
        try:
            command = self.command()
            feedback.pushCommandInfo(" ".join(map(plain, (command, *arguments))))
            return run(
                command,
                arguments,
                on_event=_Display(Gauge(self.stages), feedback),
                on_line=feedback.pushConsoleInfo,
                cancelled=feedback.isCanceled,
                accepted=accepted,
            )
        except Cancelled:
            raise QgsProcessingException(self.stopped) from None
        except RunFailed as error:
            message = _TOO_OLD if "--progress" in str(error) else str(error)
            raise QgsProcessingException(message) from error
        except CommandMissing as error:
            raise QgsProcessingException(str(error)) from error

    def add_pair(self):
        """Add the two scenes and the model as parameters."""
        self.addParameter(QgsProcessingParameterRasterLayer("BEFORE", "Scene before"))
        self.addParameter(QgsProcessingParameterRasterLayer("AFTER", "Scene after"))
        self.add_model()

    def add_model(self):
        """Add the model as a parameter."""
        label = "Model: rscc-base, rscc-small, rscc-medium or a model folder"
        self.addParameter(QgsProcessingParameterString("MODEL", label, "rscc-base"))

    def add_advanced(self, parameter):
        """Add a parameter to the folded part of the dialog."""
        parameter.setFlags(parameter.flags() | QgsProcessingParameterDefinition.Flag.FlagAdvanced)
        self.addParameter(parameter)

    def pair(self, parameters, context):
        """Return the arguments for the parameters of :meth:`add_pair`."""
        scenes = []
        for name in ("BEFORE", "AFTER"):
            layer = self.parameterAsRasterLayer(parameters, name, context)
            if layer is None:
                raise QgsProcessingException(self.invalidRasterError(parameters, name))
            if layer.providerType() != "gdal":
                raise QgsProcessingException(
                    f"{layer.name()}: rscc reads files; save this layer as one first"
                )
            scenes.append(layer.source())
        # After -- a name that begins with - is no option.
        return ["--model", self.parameterAsString(parameters, "MODEL", context), "--", *scenes]

    def style(self, source, context):
        """Style a layer once QGIS has loaded it."""
        if context.willLoadLayerOnCompletion(source):
            _STYLERS.append(Styler())
            context.layerToLoadOnCompletionDetails(source).setPostProcessor(_STYLERS[-1])


class _Display:
    """Shows the events of a run in the dialog of QGIS."""

    def __init__(self, gauge, feedback):
        self._gauge, self._feedback, self._stage = gauge, feedback, None

    def __call__(self, event):
        message = plain(event.get("message", ""))
        if event["event"] == "progress":
            self._feedback.setProgress(self._gauge.update(event))
            if event.get("stage") != self._stage:
                self._stage = event.get("stage")
                self._feedback.setProgressText(plain(self._stage))
        elif event["event"] == "warning":
            self._feedback.pushWarning(message)
        elif message:
            self._feedback.pushInfo(message)
