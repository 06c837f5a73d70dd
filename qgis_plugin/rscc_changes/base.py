"""What all algorithms have in common: the command, how it is run, what comes of it."""

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
    """Gives a layer the style that rscc wrote with it."""

    def postProcessLayer(self, layer, context, feedback):
        """Take the style beside the file or in it; QGIS calls this once the layer is loaded."""
        layer.loadDefaultStyle()
        layer.triggerRepaint()


# QGIS deletes each with the run that it is given to, but does not keep Python from doing so earlier.
_STYLERS = deque(maxlen=100)


class RsccAlgorithm(QgsProcessingAlgorithm):
    """An algorithm that runs ``rscc``; the names of most methods are those of QGIS.

    Attributes:
        key, title, help: its id in ``rscc:<id>``, its name in the toolbox, what it does.
        stages: of its progress, see :class:`.command.Gauge`.
        stopped: what is said where it was cancelled.
    """

    key = title = help = ""
    stopped = "Stopped."
    stages = ()

    def createInstance(self):
        """Return another one."""
        return type(self)()

    def name(self):
        """Return the id."""
        return self.key

    def displayName(self):
        """Return the name in the toolbox."""
        return self.title

    def shortHelpString(self):
        """Return what stands beside the dialog."""
        return self.help

    def canExecute(self):
        """Return whether the command is there, and what to do where it is not."""
        try:
            self.command()
        except CommandMissing as error:
            return False, str(error)
        return True, ""

    def command(self):
        """Return the path of the command; CommandMissing where there is none."""
        return find_command(str(ProcessingConfig.getSetting(SETTING) or ""))

    def execute(self, arguments, feedback, accepted=(0,)):
        """Run the command with its progress shown; raise what went wrong as QGIS wants it."""
        gauge = Gauge(self.stages)
        stage = None

        def show(event):
            nonlocal stage
            message = plain(event.get("message", ""))
            if event["event"] == "progress":
                feedback.setProgress(gauge.tell(event))
                if event.get("stage") != stage:
                    stage = event.get("stage")
                    feedback.setProgressText(plain(stage))
            elif event["event"] == "warning":
                feedback.pushWarning(message)
            elif message:
                feedback.pushInfo(message)

        try:
            command = self.command()
            feedback.pushCommandInfo(" ".join(map(plain, (command, *arguments))))
            return run(
                command,
                arguments,
                on_event=show,
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
        words = "Model: rscc-base, rscc-small, rscc-medium or a model folder"
        self.addParameter(QgsProcessingParameterString("MODEL", words, "rscc-base"))

    def add_advanced(self, parameter):
        """Add a parameter that is folded away."""
        parameter.setFlags(parameter.flags() | QgsProcessingParameterDefinition.Flag.FlagAdvanced)
        self.addParameter(parameter)

    def pair(self, parameters, context):
        """Return the words of the command line for what :meth:`add_pair` added."""
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
        # A name that begins with - is no option.
        return ["--model", self.parameterAsString(parameters, "MODEL", context), "--", *scenes]

    def style(self, source, context):
        """Let a layer that QGIS will load have its style."""
        if context.willLoadLayerOnCompletion(source):
            _STYLERS.append(Styler())
            context.layerToLoadOnCompletionDetails(source).setPostProcessor(_STYLERS[-1])
