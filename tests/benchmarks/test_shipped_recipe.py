"""The whole recipe of a shipped model, from generated data to the weights, each stage by its command."""

import json
import tomllib

import pytest
from levir_cc_fixture import CHANGED, UNCHANGED, sentences, write_change_masks, write_levir_cc
from synthesis_fixture import write_single_date
from train_shipped import HERE, main
from typer.testing import CliRunner

from rscc.captioner import Captioner
from rscc.model_folder import open_model_folder
from workflows.cli.app import State
from workflows.cli.commands import app

SIZES = """
[model]
paper = "rdd"
backbone = "tiny"
width = 16
heads = 2
word_width = 7
max_words = 12
head_width = 8
[data]
size = 32
min_count = 1
{data}
[train]
batch_size = 8
epochs = 1
warmup_steps = 2
{train}
[loss]
n2o = 0
v2a = 0
{loss}
"""

STAGES = {
    "change_head": {
        "train": 'select = "mask_f1"',
        "loss": "caption = 0\nchanged = 0\nchange_mask = 1",
    },
    "language": {
        "train": 'objective = "language"\nselect = "perplexity"',
        "loss": "caption = 1\nchanged = 0\nchange_mask = 0",
    },
    "captions": {
        "data": "reversed = 0.2",
        "train": 'frozen = ["backbone", "change_head"]\ncache_features = true',
        "loss": "caption = 1\nchanged = 0.5\nchange_mask = 0",
    },
}


# The grammar of the synthesis is learnt from sentences on one and on several buildings.
BUILT = ("a house is built on the left", "many villas are built beside the road", "some houses are built")


@pytest.fixture
def recipe(tmp_path):
    """Write generated data and the recipe of rscc-small with stages of one epoch; returns the options."""
    data = tmp_path / "data"
    write_levir_cc(data / "levir_cc", train=16, val=6)
    captions = data / "levir_cc/LevirCCcaptions.json"
    content = json.loads(captions.read_text())
    for entry in content["images"]:
        entry["sentences"] += sentences(BUILT) if entry["changeflag"] else []
    captions.write_text(json.dumps(content))
    write_change_masks(data / "change_masks")
    write_single_date(data / "single_date")
    (data / "annotations").mkdir()
    pairs = [{"filename": "a.png", "sentences": list(said)} for said in (*CHANGED, UNCHANGED)]
    (data / "annotations/corpus.json").write_text(json.dumps({"train": pairs, "val": pairs[:2]}))
    for name, parts in STAGES.items():
        text = SIZES.format(**{"data": "", "train": "", "loss": "", **parts})
        (tmp_path / f"{name}.toml").write_text(text)
    shipped = tomllib.loads((HERE / "shipped.toml").read_text())
    (tmp_path / "recipe.toml").write_text(as_toml(shipped))
    masked = next((data / "change_masks/A").iterdir()).name
    (tmp_path / "labels.csv").write_text(f"file,left,top,side,came,gone,named\n{masked},,,,building,,road\n")
    return ["--recipe", str(tmp_path / "recipe.toml"), "--data", str(data), "--output", str(tmp_path / "out")]


def as_toml(shipped) -> str:
    """Write the stages of the shipped recipe with small configs, data and numbers of pairs."""
    lines = ["[spread]", "cider = 1.0", "mask_f1 = 0.01"]
    synthesis = {
        key: str(min(int(value), 2)) if value.isdigit() else value
        for key, value in shipped["shared"]["synthesis"]["options"].items()
        if key != "single-date"
    }
    synthesis |= {"mask-dataset": ["fine"], "insertions": "0"}  # noise holds no building to insert
    lines += ["[shared.synthesis]", 'command = "synthesize"', f"options = {inline(synthesis)}"]
    tables = {"shared.language": shipped["shared"]["language"]}
    tables |= {f"models.rscc-small.{name}": stage for name, stage in shipped["models"]["rscc-small"].items()}
    for label, stage in tables.items():
        options = {key: value for key, value in stage["options"].items() if key != "backbone-weights"}
        if "corpus" in options:
            options["corpus"] = "data:annotations/corpus.json"
        config = f'config = "{label.split(".")[-1]}.toml"'
        lines += [f"[{label}]", config, f"options = {inline(options)}"]
    return "\n".join(lines) + "\n"


def inline(options) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in options.items()) + " }"


@pytest.mark.slow
def test_from_the_data_to_a_model_that_captions(tiny_registered, recipe, tmp_path, capsys) -> None:
    commands = []

    def run(words, log) -> int:
        commands.append(words)
        done = CliRunner().invoke(app, list(words[1:]), obj=State())
        log.write_text(f"{done.output}\n{done.exception!r}")
        assert done.exit_code == 0, log.read_text()
        return 0

    main(recipe, run)
    assert [words[1] for words in commands] == ["synthesize", *["train"] * 3]
    record = json.loads((tmp_path / "out/record.json").read_text())
    own = [label.split("/")[1] for label in record["stages"]]
    assert own == ["synthesis", "language", "change_head", "captions"]
    folder = open_model_folder(tmp_path / "out/rscc-small", check_hashes=True)
    assert folder.card.name == "rscc-small"
    assert folder.card.weights_sha256 == record["stages"]["rscc-small/captions"]["result"]
    assert {"cider", "mask_f1"} <= set(folder.card.scores)
    assert Captioner.load(folder.path, device="cpu").card.localiser == "change_head"
    main(recipe, run)
    assert len(commands) == 4, "all was finished"
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(["--recipe", recipe[1], "--check", str(folder.path), "--shipped", str(tmp_path / "out")])
    assert stopped.value.code == 0
    assert "rscc-small cider" in capsys.readouterr().out

    main([*recipe[:-1], str(tmp_path / "second")], run)
    second = json.loads((tmp_path / "second/record.json").read_text())["stages"]
    results = {label: stage["result"] for label, stage in record["stages"].items()}
    assert results == {label: stage["result"] for label, stage in second.items()}, "the same seeds"
    assert len(set(results.values())) == 4
