"""The recipe of the shipped models: what runs, in which order, what is skipped, what is recorded."""

import json
import shlex
from pathlib import Path

import pytest
import torch
from fakes import card
from grounds_to_compare import drawn_ground, planted, write_grounds
from levir_cc_fixture import write_levir_cc
from markdown_tables import cells_of
from safetensors.torch import save_file
from shipped_recipe import Places, command_line, read_recipe
from train_shipped import HERE, check, main

from rscc.config import load_config
from rscc.model_folder import sha256_of
from rscc.models import MODELS
from rscc.models.trunks import build_backbone
from rscc.text.vocabulary import SPECIAL, Vocabulary

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
    weights = hashes["model.safetensors"]
    described = card(name=name, weights_sha256=weights, scores=scores, localiser="attention")
    told = {"format": 1, "card": vars(described), "model": {}, "no_change_prefixes": [], "sha256": hashes}
    (folder / "model.json").write_text(json.dumps(told))


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


def ran(words: list[str]) -> FakeCommand:
    """Run the script and return what it asked the command for."""
    fake = FakeCommand()
    main(words, fake)
    return fake


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


def test_stages_run_in_order_read_what_earlier_ones_wrote_and_are_recorded(recipe, tmp_path, capsys) -> None:
    fake = ran(recipe)
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


def test_what_is_finished_is_not_repeated_but_where_inputs_weights_or_seed_changed(recipe, tmp_path) -> None:
    ran(recipe)
    assert ran(recipe).asked == []
    assert ran([*recipe, "--from-stage", "captions"]).stages() == ["captions"]
    (tmp_path / "out/runs/one/captions/model/model.safetensors").write_text("damaged")
    assert ran(recipe).stages() == ["captions"]
    seeded = ran([*recipe, "--seed", "9"])
    assert seeded.stages() == ["synthesis", "head", "captions", "head"]
    assert all(words[words.index("--seed") + 1] == "9" for words in seeded.asked)
    (tmp_path / "data/levir/LevirCCcaptions.json").write_text('{"more": 1}')
    assert ran([*recipe, "--seed", "9", "--model", "one"]).stages() == ["synthesis", "head", "captions"]


def test_a_killed_training_goes_on_and_a_failed_one_stops_the_recipe(recipe, tmp_path) -> None:
    with pytest.raises(SystemExit, match=r"one/head failed; .*head\.log says why"):
        main(recipe, FakeCommand(failing="head"))
    second = ran(recipe)
    assert second.asked[0][-1] == "--resume"
    assert [words[-1] for words in second.asked[1:]] == ["cpu", "cpu"]


def test_a_second_run_is_checked_against_the_shipped_cards(tmp_path) -> None:
    spread = {"cider": 2.0, "mask_f1": 0.01, "cider_changed": 1.0}
    shipped, good, far, lacking = (tmp_path / name for name in ("shipped", "good", "far", "lacking"))
    write_model(shipped / "one", "one", "a", {"cider": 100.0, "mask_f1": 0.8})
    write_model(good, "one", "b", {"cider": 98.1, "mask_f1": 0.805})
    write_model(far, "one", "c", {"cider": 102.1, "mask_f1": 0.8})
    write_model(lacking, "one", "d", {"cider": 100.0})
    text, fits = check([good], spread, shipped)
    assert fits
    assert [row[3] for row in cells_of(text)[2:]] == ["-1.9", "0.005"]
    assert not check([far], spread, shipped)[1]
    assert not check([good, lacking], spread, shipped)[1]
    with pytest.raises(SystemExit) as stopped:
        main(["--check", str(good), "--shipped", str(shipped)])
    assert stopped.value.code == 0
    with pytest.raises(SystemExit, match="farther from the shipped model's"):
        main(["--check", str(lacking), "--shipped", str(shipped)])


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
    captions = load_config(f"rscc_{size}").model
    assert size == "small" or load_config("rscc_base_backwards").model == captions
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


def test_nothing_is_trained_while_a_test_image_lies_in_the_training_data(recipe, tmp_path, capsys) -> None:
    data = tmp_path / "data"
    write_levir_cc(data / "levir", train=2, val=1, test=2, size=128)
    learnt = write_grounds(data / "masks", range(20, 23))
    with (tmp_path / "recipe.toml").open("a") as file:
        file.write('[leaks]\ntest = "data:levir"\ntraining = ["data:levir", "data:masks"]\n')
    (tested,) = write_grounds(data / "levir" / "images" / "test" / "B", range(5, 6))
    tested.replace(tested.with_name("test_000001.png"))
    leak = learnt[0].with_name("leak.jpg")
    planted(drawn_ground(5), side=170, zoom=1.2, turns=3, mirrored=True).save(leak)
    fake = FakeCommand()
    with pytest.raises(SystemExit, match=r"test_000001\.png in .*leak\.jpg.*take these out"):
        main(recipe, fake)
    assert fake.asked == [] and not (tmp_path / "out" / "leaks.json").exists()
    leak.unlink()
    main(recipe, fake)
    assert fake.asked and json.loads((tmp_path / "out" / "leaks.json").read_text())["leaks"] == []
    assert "none lies there" in capsys.readouterr().out
    main(recipe, fake)
    assert "leaks: looked for before" in capsys.readouterr().out


def test_the_shipped_recipe_looks_through_all_images_that_its_models_learn_from() -> None:
    stages = SHIPPED.stages_of(["rscc-base", "rscc-small"])
    read = {value for stage in stages for _, value in stage.values() if value.startswith("data:")}
    images = {value for value in read if not value.endswith(".json.gz")}
    assert images == set(SHIPPED.leaks["training"]) and SHIPPED.leaks["test"] == "data:levir_cc"
