"""Every option of every command reaches the function that does the work."""

import importlib
import json
import re
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import typer
from captioners import BrightnessCaptioner, captioned
from scene_pairs import exit_code, make_pair

from rscc.configs import load_config
from workflows.cli.commands import app
from workflows.report.report import Report

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Each is done by the command itself, after the call or around it, and tested there.
AROUND = {"--json", "--quiet", "--debug", "--progress", "--help", "--compare", "--predictions", "--sheet"}
# Texts other than the default, and what else an option needs; a switch has none.
OTHER = """
--after b.tif | --align | --allow-host maps.example | --also also | --area area.geojson | --asset visual
| --at 15.0003,50.5597 | --backbone-weights trunk.safetensors | --band-names red | --bands 3,2,1 |
--batch-size 5 | --bbox 15,50.5,15.1,50.6 | --beams 5 | --before a.tif | --calm-tiles 7 |
--check-leaks leaks | --city-tiles 7 | --collection s2 | --config dirl_dubai_cc | --confirm 3 |
--context parcels.gpkg:name | --corpus corpus.txt | --crops 7 | --dataset dubai_cc | --date-after 2020 |
--date-before 2019 | --detector torchgeo:siam.ckpt | --device cpu:0 | --direction appeared | --epochs 3
| --fast | --feed feed.xml | --force | --frame after --align | --from 2019-01-01 | --glob *.tif |
--group-distance 9 | --gsd 0.7 | --html | --html-folder pages | --html-size 1MB | --id 2 |
--insertions 7 | --keep-maps | --kinds | --labelled labelled | --labels labels.csv | --maps maps |
--mask-dataset sysu | --masks masks | --match (a) | --max-cloud 7 | --memory 3GB | --min-area 30 |
--min-overlap 7 | --model mine | --name new | --no-baselines | --no-ground | --normalize |
--notify log.jsonl | --offline | --only road | --output other | --overwrite | --pair first-last |
--regularize | --removals 7 | --resume | --retries 4 | --retry-failed | --roads roads |
--robustness | --scale 0,9 | --scheduler tcp://a:8786 | --seed 9 | --series-tiles 7 | --shard 2/3 |
--since 2019 | --single-date dates | --split val | --still-tiles 7 | --text-encoder minilm |
--threshold 0.7 | --to 2020 | --trunk rscc-small | --unchanged 7 | --window 20,30 | --workers 3
"""
VALUES = dict([*text.split(maxsplit=1), ""][:2] for text in OTHER.split("|"))
DETECTOR = "rscc.models.torchgeo_detector:load_torchgeo"


@dataclass(frozen=True)
class Way:
    """One way through a command.

    Attributes:
        words: the command line.
        target: what it calls, the module and the name.
        besides: options that this way does not have, or that change nothing of this call.
        values: other values of options.
        without: functions that are not called, since they would need more than names.
    """

    words: str
    target: str
    besides: str = ""
    values: dict[str, str] = field(default_factory=dict)
    without: str = ""


WAYS = {
    "evaluate": Way(
        "evaluate --data data",
        "rscc.evaluation.evaluate:evaluate",
        "--data --stacks --overwrite",
        {"--model": "rscc-small"},
    ),
    "evaluate stacks": Way(
        "evaluate --stacks data",
        "workflows.monitor.evaluation.evaluate:evaluate_stacks",
        "--data --stacks --model --dataset --split --kinds --robustness --check-leaks --no-ground --beams "
        "--overwrite",
    ),
    "train": Way(
        "train --data data -o run --trunk rscc-base",
        "rscc.training.train_model:train_model",
        values={"--from": "rscc-small", "--model": "dirl", "--data": "also", "--device": "cuda:1"},
    ),
    "inspect": Way("inspect a.tif b.tif", "workflows.scene.inspect.inspect:inspect_pair"),
    "explain a change": Way(
        "explain r.geojson --id 1 --before a.tif --after b.tif --model other",
        "workflows.scene.explain:explain_change",
        "--output --at --window --overwrite --bands --band-names --scale --gsd --normalize --align "
        "--frame --force --bbox --area --date-before --date-after --before --after",
    ),
    "explain a place": Way(
        "explain a.tif b.tif --at 15.0001,50.5599",
        "workflows.scene.explain:explain_place",
        "--output --id --overwrite --before --after --window --bbox",
    ),
    "draw": Way(
        "explain a.tif b.tif -o picture.png",
        "workflows.scene.pictures.explain:explain_pair",
        "--id --before --after --output --overwrite --at",
    ),
    "convert": Way(
        "convert r.geojson new.geojson --threshold 0.6",
        "workflows.scene.remake:remake",
        "--html-size --html-folder --before --after --overwrite --offline --allow-host",
    ),
    "a page": Way(
        "convert r.geojson new.html --before a.tif --after b.tif",
        "workflows.report.page.page:write_page",
        "--threshold --min-area --group-distance --maps --context --html-folder --before --after",
    ),
    "a sample": Way(
        "review made --sample 3 -o sample.geojson",
        "workflows.archive.sample:draw_sample",
        "--sample --export --overwrite --output",
    ),
    "an export": Way(
        "review new r.geojson --export levir-cc",
        "workflows.report.training_pairs:export_pairs",
        "--sample --export --overwrite --output",
    ),
    "merge": Way(
        "review r.geojson marks.json", "workflows.report.review:review_report", "--sample --export --seed"
    ),
    "pairs": Way("pairs scenes -o new.csv", "workflows.pairs.sources:read_catalog", "--output --overwrite"),
    "batch": Way(
        "batch pairs.csv --out archive --model rscc-small",
        "workflows.archive.run:run_archive",
        "--dry-run --out",
        without=DETECTOR,
    ),
    "a dry run": Way(
        "batch pairs.csv --out archive --model rscc-small --dry-run",
        "workflows.archive.estimate:estimate_archive",
        "--retries --dry-run --out",
        without=DETECTOR,
    ),
    "monitor": Way("monitor scenes --out places", "workflows.monitor.monitor:run_monitor", "--since --out"),
    "qgis": Way("qgis r.geojson", "workflows.report.qgis.project:write_project"),
    "verify": Way(
        "verify r.geojson --before a.tif --after b.tif",
        "workflows.archive.verify:Verifier",
        values={"--before": "b.tif", "--after": "a.tif"},
    ),
    "doctor": Way("doctor", "workflows.doctor:examine"),
    "sources of made pairs": Way(
        "synthesize --data data -o new",
        "rscc.data.synthesis.imagery:Imagery",
        "--data --crops --unchanged --insertions --removals --seed --output",
    ),
    "made pairs": Way(
        "synthesize --data data -o new",
        "rscc.data.synthesis.suburbs:SynthesisOptions",
        "--data --masks --mask-dataset --single-date --output",
    ),
    "synthesize-medium": Way(
        "synthesize-medium --cities data -o new",
        "rscc.data.synthesis.medium:medium_pairs",
        "--cities --scenes --output",
        without="rscc.data.synthesis.folder:read_cities",
    ),
}


class CalledError(Exception):
    exit_code = 99


def shown(value: object) -> str:
    """What a value is, without where it lies in memory; of a function that loads a model, the model."""
    if isinstance(value, Report):
        return shown([len(value.changes), value.scenes, value.servers])
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if getattr(value, "__name__", "") in ("load", "<lambda>"):
        value = value()
    return ADDRESS.sub("", repr(value))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    pair = make_pair(folder, [(20, 150, 12, 20, 220), (60, 20, 30, 30, 240)], names=("a.tif", "b.tif"))
    captioned(pair, BrightnessCaptioner()).write(folder / "r.geojson")
    (folder / "pairs.csv").write_text("before,after\na.tif,b.tif\n")
    corners = [[15.0, 50.5], [15.1, 50.5], [15.1, 50.6], [15.0, 50.5]]
    outline = {"type": "Polygon", "coordinates": [corners]}
    feature = {"type": "Feature", "geometry": outline, "properties": {}}
    collection = {"type": "FeatureCollection", "features": [feature]}
    (folder / "area.geojson").write_text(json.dumps(collection))
    return folder


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_option_reaches_what_the_command_calls(way, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    called = []

    def record(*values, **named):
        called.append({**dict(enumerate(map(shown, values))), **{key: shown(named[key]) for key in named}})
        raise CalledError

    def replace_function(name, other):
        module, function = name.split(":")
        monkeypatch.setattr(importlib.import_module(module), function, other)

    replace_function(way.target, record)
    if way.without:
        replace_function(way.without, lambda *given: SimpleNamespace(card=given[-1]))

    def call(*more):
        called.clear()
        code = exit_code(
            *way.words.split(),
            *more,
            captioner_factory=lambda *asked: SimpleNamespace(asked=asked),
            card_factory=lambda name: replace(BrightnessCaptioner().card, name=name),
        )
        assert code == CalledError.exit_code and len(called) == 1, (more, capsys.readouterr().err)
        return called[0]

    command = typer.main.get_command(app).commands[way.words.split()[0]]
    options = command.get_params(command.make_context("rscc", [], resilient_parsing=True))
    for option in options:
        flags = [*option.opts, *option.secondary_opts]
        flag = next((one for one in flags if one.startswith("--no-")), flags[0])
        if option.param_type_name != "option" or {flag, *option.opts} & {*AROUND, *way.besides.split()}:
            continue
        value = (way.values[flag] if flag in way.values else VALUES[flag]).split()
        assert call(*value[1:]) != call(*value[1:], flag, *value[:1]), flag


@pytest.mark.parametrize(
    ("words", "config", "changed"),
    [
        ((), "finetune", {}),
        (("--epochs", "5"), "finetune", {"epochs": 5, "facts_alone": False}),
        (("--model", "dirl"), "dirl_levir_cc", {}),
    ],
)
def test_the_config_of_a_fine_tuning_is_that_of_a_named_paper(words, config, changed, monkeypatch):
    def record(settings, *_, **__):
        assert settings.train == replace(load_config(config).train, **changed)
        raise CalledError

    monkeypatch.setattr("rscc.training.train_model.train_model", record)
    start = ("train", "--data", "data", "-o", "run", "--from", "rscc-small", *words)
    assert exit_code(*start) == CalledError.exit_code
