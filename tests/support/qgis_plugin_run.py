"""Run the plugin's algorithms in QGIS's own Python, as its toolbox does.

    python3 qgis_plugin_run.py PLUGIN_FOLDER BEFORE AFTER REPORT PAIRS ARCHIVE COARSE

Prints as JSON how runs went: a caption and a batch whose layers were loaded, a caption and a batch that were
cancelled at their first progress, an inspection of the scene before and one that is too coarse.
"""

import json
import sys

from qgis.core import (
    QgsApplication,
    QgsProcessingContext,
    QgsProcessingFeedback,
    QgsProcessingOutputLayerDefinition,
    QgsProject,
)


class Listener(QgsProcessingFeedback):
    """Keeps what it hears; cancels at the first progress where told to."""

    def __init__(self, cancels):
        super().__init__(False)
        self.percents, self.errors, self.infos, self.cancels = [], [], [], cancels
        self.progressChanged.connect(self.take)

    def take(self, percent):
        self.percents.append(percent)
        if self.cancels:
            self.cancel()

    def reportError(self, error, fatalError=False):
        self.errors.append(error)

    def pushInfo(self, info):
        self.infos.append(info)


def main(folder, before, after, report, pairs, archive, coarse):
    """Run them."""
    QgsApplication.setPrefixPath("/usr", True)
    application = QgsApplication([], False)
    application.initQgis()
    sys.path[:0] = ["/usr/share/qgis/python/plugins", folder]
    from processing.core.Processing import Processing
    from processing.gui.Postprocessing import handleAlgorithmResults

    Processing.initialize()
    import rscc_changes

    plugin = rscc_changes.classFactory(None)
    plugin.initProcessing()
    registry = QgsApplication.processingRegistry()
    algorithm = registry.algorithmById("rscc:caption")
    pair = {"BEFORE": before, "AFTER": after, "MIN_AREA": 25.5, "DATE_AFTER": "2020"}

    def run(algorithm, values, cancels=False):
        context, listener = QgsProcessingContext(), Listener(cancels)
        context.setProject(QgsProject.instance())
        instance = algorithm.create()
        results, good = instance.run(values, context, listener)
        if good:
            handleAlgorithmResults(instance, context, listener)
        heard = {name: getattr(listener, name) for name in ("percents", "errors", "infos")}
        return {"good": good, "results": results, **heard}

    output = QgsProcessingOutputLayerDefinition(report, QgsProject.instance())
    told = {"loaded": run(algorithm, {**pair, "OUTPUT": output})}
    table = {"PAIRS": pairs, "ARCHIVE": archive, "WORKERS": 1}
    told["batch"] = run(registry.algorithmById("rscc:batch"), table)
    told["layers"] = [
        [layer.name(), layer.renderer().type(), layer.labelsEnabled(), layer.featureCount()]
        for layer in QgsProject.instance().mapLayers().values()
    ]
    told["cancelled"] = run(algorithm, {**pair, "OUTPUT": report.replace("r.gpkg", "never.gpkg")}, True)
    table["ARCHIVE"] = f"{archive}_stopped"
    told["batch_cancelled"] = run(registry.algorithmById("rscc:batch"), table, True)
    inspect = registry.algorithmById("rscc:inspect")
    told["refused"] = run(inspect, {"BEFORE": before, "AFTER": coarse})
    told["unknown"] = run(inspect, {"BEFORE": before, "AFTER": after, "MODEL": "no-such-model"})
    told["can"] = list(algorithm.canExecute())
    algorithms = registry.providerById("rscc").algorithms()
    told["algorithms"] = sorted(each.id() for each in algorithms)
    plugin.unload()
    told["unloaded"] = registry.providerById("rscc") is None
    print(json.dumps(told, default=str))
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
