"""The recipe of the shipped models: what runs, in which order, what is skipped, what is recorded."""

import json
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from shipped_recipe import Places, command_line, fingerprint, read_recipe
from train_shipped import HERE, check, main

from rscc.config import load_config
from rscc.models import MODELS
from rscc.models.backbone import build_backbone
from rscc.vocabulary import SPECIAL, Vocabulary
from rscc.weights import ModelCard, sha256_of

RECIPE = """
[weights.tiny]
file = "tiny.bin"
sha256 = "{sha256}"
origin = "made by the test"

[spread]
cider = 2.0
mask_f1 = 0.01

[shared.synthesis]
command = "synthesize"
options = {{ data = "data:levir" }}

[shared.unread]
command = "synthesize"
options = {{ data = "data:levir" }}

[models.one.head]
config = "head.toml"
seed = 3
options = {{ data = "data:levir", masks = ["data:masks", "data:levir"], backbone-weights = "weights:tiny" }}

[models.one.captions]
config = "rscc_base"
seed = 4
options = {{ data = "data:levir", also = ["stage:synthesis"], trunk = "stage:head" }}

[models.two.head]
config = "head.toml"
options = {{ data = "data:levir" }}
"""


def write_model(folder: Path, name: str, content: str, scores: dict[str, float]) -> None:
    """Write a folder that is a model as far as its description says."""
    folder.mkdir(parents=True)
    save_file({"a": torch.tensor([float(len(content))])}, folder / "model.safetensors", {"by": content})
    (folder / "vocabulary.json").write_text("[]")
    hashes = {name: sha256_of(folder / name) for name in ("model.safetensors", "vocabulary.json")}
    card = ModelCard(
        name=name,
        version="1",
        description="",
        paper="rdd",
        weights_sha256=hashes["model.safetensors"],
        gsd=0.5,
        gsd_range=(0.2, 1.2),
        tile_size=32,
        threshold=0.5,
        changed_threshold=0.5,
        localisation="",
        licence="",
        data="",
        trained="",
        scores=scores,
        localiser="attention",
    )
    content_of = {"format": 1, "card": vars(card), "model": {}, "no_change_prefixes": [], "sha256": hashes}
    (folder / "model.json").write_text(json.dumps(content_of))


class FakeCommand:
    """Stands for ``rscc``: writes what the command would, and remembers what it was asked."""

    def __init__(self, failing: str | None = None):
        self.asked: list[list[str]] = []
        self.failing = failing

    def __call__(self, words, log) -> int:
        self.asked.append(list(words))
        options = dict(zip(words[2::2], words[3::2], strict=False))
        output = Path(options["--output"])
        if self.failing and output.name == self.failing:
            (output / "checkpoint.pt").write_text("half")
            return 1
        if words[1] == "synthesize":
            (output / "images").mkdir(parents=True)
            (output / "images" / "a.png").write_text(options["--seed"])
            (output / "LevirCCcaptions.json").write_text("{}")
        else:
            write_model(output / "model", options["--name"], shlex.join(words[:4]), {"cider": 100.0})
        return 0

    def stages(self) -> list[str]:
        return [Path(words[words.index("--output") + 1]).name for words in self.asked]


@pytest.fixture
def recipe(tmp_path) -> list[str]:
    """The options of a small recipe beside its data."""
    for name in ("data/levir", "data/masks", "weights"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/levir/LevirCCcaptions.json").write_text("{}")
    (tmp_path / "weights/tiny.bin").write_text("weights")
    (tmp_path / "head.toml").write_text("[model]\n")
    text = RECIPE.format(sha256=sha256_of(tmp_path / "weights/tiny.bin"))
    (tmp_path / "recipe.toml").write_text(text)
    options = {"recipe": "recipe.toml", "data": "data", "weights": "weights", "output": "out"}
    return [word for name, path in options.items() for word in (f"--{name}", str(tmp_path / path))]


def test_stages_run_in_order_and_read_what_earlier_ones_wrote(recipe, tmp_path) -> None:
    fake = FakeCommand()
    main(recipe, fake)
    assert fake.stages() == ["synthesis", "head", "captions", "head"]  # nobody reads "unread"
    runs, data = tmp_path / "out/runs", tmp_path / "data"
    assert fake.asked[1] == [
        *("rscc", "train", "--config", str(tmp_path / "head.toml"), "--data", str(data / "levir")),
        *("--masks", str(data / "masks"), "--masks", str(data / "levir")),
        *("--backbone-weights", str(tmp_path / "weights/tiny.bin"), "--seed", "3"),
        *("--output", str(runs / "one/head"), "--name", "one-head", "--device", "cpu"),
    ]
    assert fake.asked[2] == [
        *("rscc", "train", "--config", "rscc_base", "--data", str(data / "levir")),
        *("--also", str(runs / "shared/synthesis"), "--trunk", str(runs / "one/head/model"), "--seed", "4"),
        *("--output", str(runs / "one/captions"), "--name", "one", "--device", "cpu"),
    ]
    assert (runs / "one/captions/features").resolve() == (runs / "two/head/features").resolve()


def test_the_record_holds_seeds_hashes_and_scores(recipe, tmp_path, capsys) -> None:
    main(recipe, FakeCommand())
    record = json.loads((tmp_path / "out/record.json").read_text())
    assert list(record["stages"]) == ["shared/synthesis", "one/head", "one/captions", "two/head"]
    head, captions = record["stages"]["one/head"], record["stages"]["one/captions"]
    assert (head["seed"], captions["seed"], captions["validation"]) == (3, 4, {"cider": 100.0})
    assert head["inputs"]["weights:tiny"] == sha256_of(tmp_path / "weights/tiny.bin")
    assert head["inputs"]["config:head.toml"] == sha256_of(tmp_path / "head.toml")
    assert captions["inputs"]["stage:head"] == head["result"]
    delivered = tmp_path / "out/one/model.safetensors"
    assert captions["result"] == sha256_of(delivered) != head["result"]
    assert captions["result"][:12] in capsys.readouterr().out


def test_finished_stages_are_not_repeated(recipe, tmp_path) -> None:
    main(recipe, FakeCommand())
    second = FakeCommand()
    main(recipe, second)
    assert second.asked == []
    main([*recipe, "--from-stage", "captions"], second)
    assert second.stages() == ["captions"]
    (tmp_path / "data/levir/LevirCCcaptions.json").write_text('{"more": 1}')
    third = FakeCommand()
    main([*recipe, "--model", "one"], third)
    assert third.stages() == ["synthesis", "head", "captions"]


def test_a_changed_config_repeats_its_stage_and_what_reads_its_weights(recipe, tmp_path) -> None:
    main(recipe, FakeCommand())
    (tmp_path / "out/runs/one/captions/model/model.safetensors").write_text("damaged")
    damaged = FakeCommand()
    main(recipe, damaged)
    assert damaged.stages() == ["captions"]
    main([*recipe, "--seed", "9"], seeded := FakeCommand())
    assert seeded.stages() == ["synthesis", "head", "captions", "head"]
    assert all(words[words.index("--seed") + 1] == "9" for words in seeded.asked)


def test_a_killed_training_goes_on_and_a_failed_one_stops_the_recipe(recipe, tmp_path) -> None:
    with pytest.raises(SystemExit, match=r"one/head failed; .*head\.log says why"):
        main(recipe, FakeCommand(failing="head"))
    second = FakeCommand()
    main(recipe, second)
    assert second.asked[0][-1] == "--resume"
    assert [words[-1] for words in second.asked[1:]] == ["cpu", "cpu"]


def test_a_foreign_folder_is_left_alone(recipe, tmp_path) -> None:
    foreign = tmp_path / "out/runs/one/head/precious.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(SystemExit, match="not a run of this script"):
        main(recipe, FakeCommand())
    assert foreign.read_text() == "mine"


def test_weights_must_be_the_named_ones(recipe, tmp_path) -> None:
    (tmp_path / "weights/tiny.bin").write_text("others")
    with pytest.raises(SystemExit, match=r"tiny\.bin: not the file that the recipe names"):
        main([*recipe, "--dry-run"], FakeCommand())
    (tmp_path / "weights/tiny.bin").unlink()
    with pytest.raises(SystemExit, match=r"tiny\.bin is not in .*--weights: made by the test"):
        main([*recipe, "--dry-run"], FakeCommand())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "three"], "no model three; the recipe knows one, two"),
        (["--from-stage", "end"], "no stage end; they are synthesis, head, captions"),
    ],
)
def test_unknown_names_are_refused(recipe, options, message) -> None:
    with pytest.raises(SystemExit, match=message):
        main([*recipe, *options], FakeCommand())


def test_a_stage_cannot_read_a_later_one(recipe, tmp_path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(file.read_text().replace("weights:tiny", "stage:captions"))
    with pytest.raises(SystemExit, match="one/head: no earlier stage is called 'captions'"):
        main([*recipe, "--dry-run"], FakeCommand())


def test_a_dry_run_prints_and_writes_nothing(recipe, tmp_path, capsys) -> None:
    main([*recipe, "--dry-run", "--device", "cuda"], FakeCommand())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["synthesize", "train", "train", "train"]
    assert all(line.endswith("--device cuda") for line in lines[1:])
    assert not (tmp_path / "out").exists()


def test_a_second_run_is_checked_against_the_shipped_cards(tmp_path) -> None:
    spread = {"cider": 2.0, "mask_f1": 0.01, "cider_changed": 1.0}
    shipped, good, far, lacking = (tmp_path / name for name in ("shipped", "good", "far", "lacking"))
    write_model(shipped / "one", "one", "a", {"cider": 100.0, "mask_f1": 0.8})
    write_model(good, "one", "b", {"cider": 98.1, "mask_f1": 0.805})
    write_model(far, "one", "c", {"cider": 102.1, "mask_f1": 0.8})
    write_model(lacking, "one", "d", {"cider": 100.0})
    text, fits = check([good], spread, shipped)
    assert fits
    assert [line.split("|")[4].strip() for line in text.splitlines()[2:]] == ["-1.9", "0.005"]
    assert not check([far], spread, shipped)[1]
    assert not check([good, lacking], spread, shipped)[1]
    with pytest.raises(SystemExit) as stopped:
        main(["--check", str(good), "--shipped", str(shipped)])
    assert stopped.value.code == 0
    with pytest.raises(SystemExit, match="farther from the shipped model's"):
        main(["--check", str(lacking), "--shipped", str(shipped)])


def test_a_folder_is_known_by_names_sizes_and_tables(tmp_path) -> None:
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "b.png").write_text("1")
    first = fingerprint(tmp_path)
    (tmp_path / "b.png").write_text("2")
    assert fingerprint(tmp_path) == first
    assert fingerprint(tmp_path, pictures=True) != first
    (tmp_path / "a.json").write_text("2")
    assert fingerprint(tmp_path) != first
    with pytest.raises(SystemExit, match="no such file or folder"):
        fingerprint(tmp_path / "c")


SHIPPED = read_recipe(HERE / "shipped.toml")


@pytest.mark.parametrize("stage", SHIPPED.stages, ids=lambda stage: stage.label)
def test_every_shipped_stage_has_a_config_and_its_sources(stage, monkeypatch) -> None:
    monkeypatch.setattr(Places, "find_weights", lambda self, entry: Path(entry["file"]))
    words = command_line(SHIPPED, stage, Places(Path("data"), None, Path("out")), "cpu")
    assert words[:2] == ["rscc", stage.command]
    if stage.config is not None:
        assert load_config(stage.config).train.seed == stage.seed


@pytest.mark.parametrize("size", ["base", "small"])
def test_the_stages_of_a_model_have_one_size(size) -> None:
    captions, cider = (load_config(f"rscc_{size}{last}").model for last in ("", "_cider"))
    assert captions == cider
    trunk = load_config("change_head" if size == "base" else "change_head_small").model
    assert (trunk.backbone, trunk.head_width) == (captions.backbone, captions.head_width)
    for name in ("width", "word_width", "heads", "decoder_layers", "max_words"):  # of the decoder
        assert getattr(load_config("language").model, name) == getattr(captions, name)


def test_both_models_fit_in_60_mb() -> None:
    """Matrices count in half precision, as they are saved."""
    sizes = {}
    for name in ("rscc_base", "rscc_small"):
        config = load_config(name).model
        words = Vocabulary((*SPECIAL, *(f"word{number}" for number in range(500))))
        model = MODELS[config.paper](
            config=config, backbone=build_backbone(config.backbone), vocabulary=words
        )
        values = [v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")]
        sizes[name] = sum(v.numel() * (2 if v.ndim >= 2 else 4) for v in values)
    assert sizes["rscc_small"] < sizes["rscc_base"] / 2
    assert sum(sizes.values()) < 60e6
