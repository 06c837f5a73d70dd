import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from levir_cc_fixture import write_change_masks, write_levir_cc
from safetensors.torch import load_file
from tiny_instructblip import tiny_instructblip
from tiny_models import (
    CAPTIONS,
    TinyTextEncoder,
    full_batch,
    random_images,
    tiny_backbone,
    tiny_config,
    tiny_model,
)

from rscc import runs
from rscc.captioner import Captioner
from rscc.config import CONFIG_FOLDER, Config, DataConfig, TrainConfig, config_from_dict, load_config
from rscc.data.levir_cc import LevirCC
from rscc.data.pairs import PairRecord, read_pair
from rscc.data.registry import DATASETS
from rscc.data.sources import CaptionText, ImageCaptionSource, MaskSource, all_forms
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid, ModelFolderInvalid, NonFiniteLoss
from rscc.finishing import best_changed_threshold, finish, no_change_prefixes, no_change_runs
from rscc.metrics import cider
from rscc.models import MODELS, backbone
from rscc.models.captioner_base import SHARED_TERMS, check_loss_weights
from rscc.runs import RunPaths, train_model
from rscc.train import Trainer, TrainResult, WeightAverage, build_optimizer, freeze, load_best, rate_factor
from rscc.validation import MaskCurve, caption_validation, image_batches, mask_curve
from rscc.vocabulary import Vocabulary
from rscc.weights import open_model_folder

LOSS = {"caption": 1.0, "n2o": 0.3, "v2a": 0.2, "changed": 0.5, "change_mask": 0.7}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_levir_cc(tmp_path_factory.mktemp("levir_cc"), train=7)


@pytest.fixture(autouse=True)
def tiny_registered(monkeypatch) -> None:
    monkeypatch.setitem(backbone.BACKBONES, "tiny", tiny_backbone)


def settings(**values) -> TrainConfig:
    fields = {"batch_size": 3, "epochs": 3, "warmup_steps": 2, "learning_rate": 3e-3, "ema": 0.9}
    return TrainConfig(**{**fields, **values})


def whole_config(train: TrainConfig, **loss) -> Config:
    return Config(
        model=tiny_config(max_words=12, dropout=0.2),
        data=DataConfig(size=32, min_count=1),
        train=train,
        loss=LOSS | loss,
    )


def sum_of_weights(model) -> dict[str, float]:
    """A validation without data: depends on the weights, falls and rises."""
    return {"cider": float(sum(p.detach().double().sum() for p in model.parameters()).sin())}


class Stopped(Exception):
    """What stops a run in these tests."""


class StoppingSource:
    """A source that fails before batch ``batch`` of epoch ``epoch``."""

    def __init__(self, source, epoch: int, batch: int):
        self.source, self.at = source, (epoch, batch)

    def steps(self) -> int:
        return self.source.steps()

    def epoch(self, number):
        for index, batch in enumerate(self.source.epoch(number)):
            if (number, index) == self.at:
                raise Stopped
            yield batch


class FixedSource:
    """The same batches in every epoch."""

    def __init__(self, *batches):
        self.batches = batches

    def steps(self) -> int:
        return len(self.batches)

    def epoch(self, number):
        yield from self.batches


def make_trainer(data, folder, config, *, seed=1, stop=None, validate=sum_of_weights, source=None) -> Trainer:
    """A trainer with everything random in it: augmentation, dropout, order, average of weights."""
    records = LevirCC(data, "train").records
    if source is None:
        vocabulary = Vocabulary.build(all_forms(records), min_count=1)
        segments = {caption: (caption[:12], caption[-12:]) for caption in all_forms(records)}
        text = CaptionText(vocabulary, max_words=12, segments=segments)
        source = ImageCaptionSource(
            records, text, batch_size=3, size=32, augment=True, seed=config.train.seed
        )
        if stop is not None:
            source = StoppingSource(source, *stop)
    else:
        vocabulary = tiny_model().vocabulary
    torch.manual_seed(seed)
    encoder = TinyTextEncoder()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(7))
    model = MODELS["rdd"](
        config=config.model, backbone=tiny_backbone(), vocabulary=vocabulary, text_encoder=encoder
    )
    return Trainer(model, source, validate, config=config, folder=folder, report=lambda line: None)


def log_of(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def assert_same_tensors(one: dict, two: dict) -> None:
    assert set(one) == set(two)
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


# Resuming


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("stop", [(1, 0), (1, 1), (2, 1)])
def test_a_resumed_run_equals_an_undisturbed_one_bit_for_bit(data, tmp_path, stop, bf16) -> None:
    config = whole_config(settings(bf16=bf16))
    whole = make_trainer(data, tmp_path / "whole", config)
    expected = whole.run()
    with pytest.raises(Stopped):
        make_trainer(data, tmp_path / "part", config, stop=stop).run()
    assert len(log_of(tmp_path / "part")) == stop[0]
    with (tmp_path / "part" / "log.jsonl").open("a") as log:
        log.write('{"epoch": ')  # as a kill while logging leaves it
    # Another start and other random numbers in between: all must come from the checkpoint.
    rest = make_trainer(data, tmp_path / "part", config, seed=99)
    torch.rand(5)
    found = rest.run(resume=True)
    assert_same_tensors(whole.model.state_dict(), rest.model.state_dict())
    assert_same_tensors(whole.average.shadow, rest.average.shadow)
    assert log_of(tmp_path / "whole") == log_of(tmp_path / "part")
    assert (found.best_epoch, found.best_scores) == (expected.best_epoch, expected.best_scores)
    assert_same_tensors(load_file(expected.weights), load_file(found.weights))


def test_epochs_differ_and_seeds_differ(data, tmp_path) -> None:
    first = make_trainer(data, tmp_path / "1", whole_config(settings(epochs=2)))
    first.run()
    again = make_trainer(data, tmp_path / "2", whole_config(settings(epochs=2)))
    again.run()
    other = make_trainer(data, tmp_path / "3", whole_config(settings(epochs=2, seed=2)))
    other.run()
    assert_same_tensors(first.model.state_dict(), again.model.state_dict())
    assert log_of(tmp_path / "1") != log_of(tmp_path / "3")


def test_a_finished_run_resumes_to_its_result(data, tmp_path) -> None:
    config = whole_config(settings(epochs=2))
    first = make_trainer(data, tmp_path, config).run()
    again = make_trainer(data, tmp_path, config, stop=(0, 0)).run(resume=True)
    assert (again.best_epoch, again.best_scores) == (first.best_epoch, first.best_scores)
    assert len(log_of(tmp_path)) == 2


def test_another_config_is_not_resumed(data, tmp_path) -> None:
    make_trainer(data, tmp_path, whole_config(settings(epochs=1))).run()
    with pytest.raises(ConfigInvalid, match=r"config\.json"):
        make_trainer(data, tmp_path, whole_config(settings(epochs=2))).run(resume=True)


def test_a_run_of_an_earlier_version_and_with_another_card_is_resumed(data, tmp_path) -> None:
    config = whole_config(settings(epochs=1))
    expected = make_trainer(data, tmp_path, config).run()
    file = tmp_path / "config.json"
    written = json.loads(file.read_text())
    del written["card"]["cost"], written["train"]["hallucination"]  # as if they were new
    file.write_text(json.dumps(written))
    config = replace(config, card=replace(config.card, version="7"))
    found = make_trainer(data, tmp_path, config, stop=(0, 0)).run(resume=True)
    assert found.best_scores == expected.best_scores
    assert json.loads(file.read_text()) == json.loads(json.dumps(config.to_dict()))


@pytest.mark.parametrize("content", ["", "[", "{}x", None])
def test_a_damaged_config_is_not_resumed(data, tmp_path, content) -> None:
    config = whole_config(settings(epochs=1))
    make_trainer(data, tmp_path, config).run()
    file = tmp_path / "config.json"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(ConfigInvalid, match=r"config\.json: not the config of a run .*; start in a new"):
        make_trainer(data, tmp_path, config).run(resume=True)


def test_a_new_run_forgets_the_earlier_one_of_its_folder(data, tmp_path) -> None:
    make_trainer(data, tmp_path, whole_config(settings(epochs=1))).run()
    config = whole_config(settings(epochs=1, learning_rate=1e-3))
    with pytest.raises(Stopped):
        make_trainer(data, tmp_path, config, stop=(0, 0)).run()
    expected = make_trainer(data, tmp_path / "other", config)
    expected.run()
    found = make_trainer(data, tmp_path, config)
    found.run(resume=True)
    assert_same_tensors(expected.model.state_dict(), found.model.state_dict())


class Exploit:
    """Writes a file when unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_checkpoint_never_runs_code(data, tmp_path) -> None:
    config = whole_config(settings(epochs=2))
    with pytest.raises(Stopped):
        make_trainer(data, tmp_path, config, stop=(1, 0)).run()
    torch.save({"model": Exploit(tmp_path / "ran")}, tmp_path / "checkpoint.pt")
    with pytest.raises(pickle.UnpicklingError):
        make_trainer(data, tmp_path, config).run(resume=True)
    torch.save(Exploit(tmp_path / "ran"), tmp_path / "weights.pth")
    with pytest.raises(pickle.UnpicklingError):
        backbone.build_backbone("resnet50", weights=tmp_path / "weights.pth")
    assert not (tmp_path / "ran").exists()


def test_a_killed_run_leaves_no_half_files(data, tmp_path) -> None:
    make_trainer(data, tmp_path, whole_config(settings(epochs=1))).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("best.safetensors", "checkpoint.pt", "config.json", "log.jsonl")
    ]


# Losses


def test_the_total_is_the_weighted_sum_of_equation_16(data, tmp_path) -> None:
    trainer = make_trainer(data, tmp_path, whole_config(settings(epochs=1, bf16=False)))
    trainer.run()
    (line,) = log_of(tmp_path)
    losses = line["loss"]
    assert set(losses) == {*LOSS, "total"}
    expected = sum(weight * losses[name] for name, weight in LOSS.items())
    assert losses["total"] == pytest.approx(expected, rel=1e-4)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_all_terms(tmp_path, data) -> None:
    good = full_batch(tiny_model(), CAPTIONS)
    bad = replace(good, before=good.before.float(), after=good.after.float())
    bad.before[0, 0, 0, 0] = float("nan")
    config = whole_config(settings(epochs=1, bf16=False))
    trainer = make_trainer(data, tmp_path, config, source=FixedSource(bad))
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    with pytest.raises(NonFiniteLoss) as caught:
        trainer.run()
    assert all(f"{name} " in str(caught.value) for name in LOSS)
    assert "nan" in str(caught.value)
    assert "epoch 1" in str(caught.value)
    assert caught.value.exit_code == 1
    assert_same_tensors(before, trainer.model.state_dict())
    assert not (tmp_path / "checkpoint.pt").exists()


def test_a_finite_batch_runs_where_the_other_stopped(tmp_path, data) -> None:
    source = FixedSource(full_batch(tiny_model(), CAPTIONS))
    make_trainer(data, tmp_path, whole_config(settings(epochs=1)), source=source).run()


def test_a_loss_table_that_does_not_fit_is_refused_before_training(data, tmp_path) -> None:
    config = whole_config(settings())
    lacking = replace(config, loss={k: v for k, v in LOSS.items() if k != "v2a"})
    with pytest.raises(ConfigInvalid, match=r"loss\.v2a"):
        make_trainer(data, tmp_path / "run", lacking)
    assert not (tmp_path / "run").exists()


# Frozen parts, averages, rates


def test_frozen_parts_do_not_move_and_the_others_do(data, tmp_path) -> None:
    frozen = ("backbone", "decoder.words", "noun_tokens")
    trainer = make_trainer(data, tmp_path, whole_config(settings(frozen=frozen, epochs=2)))
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.run()
    moved = {n for n, v in trainer.model.state_dict().items() if not torch.equal(v, before[n])}
    still = set(before) - moved
    assert {name for name in before if name.startswith(frozen)} <= still
    others = {name for name in still if not name.startswith(frozen)}
    assert all(name.endswith("key.bias") for name in others), others


def test_frozen_parts_are_in_evaluation_mode_while_the_others_train(data, tmp_path) -> None:
    modes = []

    class Watching(FixedSource):
        def epoch(self, number):
            modes.append({name: part.training for name, part in trainer.model.named_children()})
            yield from self.batches

    source = Watching(full_batch(tiny_model(), CAPTIONS))
    config = whole_config(settings(frozen=("change_head", "fusion_feed_forward"), epochs=2))
    trainer = make_trainer(data, tmp_path, config, source=source)
    trainer.run()
    for mode in modes:
        assert {name for name, training in mode.items() if not training} == {
            "change_head",
            "fusion_feed_forward",
        }


def test_frozen_names_must_exist() -> None:
    with pytest.raises(ConfigInvalid, match="spelling"):
        freeze(tiny_model(), ("backbone", "spelling"))


def test_everything_frozen_is_refused() -> None:
    model = tiny_model()
    model.requires_grad_(False)
    with pytest.raises(ConfigInvalid, match="nothing to train"):
        build_optimizer(model, settings())


def test_the_trunk_has_its_own_rate_and_all_parameters_are_given() -> None:
    model = tiny_model(text_encoder=TinyTextEncoder())
    optimizer = build_optimizer(model, settings(learning_rate=1e-3, backbone_rate=0.25, optimizer="adam"))
    assert type(optimizer) is torch.optim.Adam
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        assert rates[id(parameter)] == (2.5e-4 if name.startswith("backbone.") else 1e-3)


def test_swapping_the_average_twice_restores_the_weights() -> None:
    model = tiny_model()
    average = WeightAverage(model, 0.9)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    average.update(model)
    now = {name: value.clone() for name, value in model.state_dict().items()}
    average.swap(model)
    swapped = model.state_dict()
    name = "project.weight"
    # After one step the decay is 1 / 10: nine tenths of the way are taken.
    torch.testing.assert_close(swapped[name], start[name] + 0.9)
    average.swap(model)
    assert_same_tensors(now, model.state_dict())


def test_the_average_is_validated_and_saved_while_the_weights_go_on(data, tmp_path) -> None:
    seen = []

    def validate(model) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"cider": float(len(seen))}

    trainer = make_trainer(data, tmp_path, whole_config(settings(epochs=2)), validate=validate)
    result = trainer.run()
    assert result.best_epoch == 2
    assert_same_tensors(load_file(result.weights), seen[-1])
    name = "project.weight"
    assert not torch.equal(trainer.model.state_dict()[name], seen[-1][name])
    load_best(trainer.model, result)
    assert_same_tensors(trainer.model.state_dict(), seen[-1])


def test_the_best_epoch_is_kept_and_patience_ends_the_run(data, tmp_path) -> None:
    scores = iter([1.0, 3.0, 2.0, float("nan"), 3.0, 9.0])
    kept = []

    def validate(model) -> dict[str, float]:
        kept.append(model.state_dict()["project.weight"].clone())
        return {"cider": next(scores)}

    config = whole_config(settings(epochs=20, patience=3, ema=0.0))
    result = make_trainer(data, tmp_path, config, validate=validate).run()
    assert (result.best_epoch, result.best_scores) == (2, {"cider": 3.0})
    assert torch.equal(load_file(result.weights)["project.weight"], kept[1])
    assert [line["best"] for line in log_of(tmp_path)] == [True, True, False, False, False]


def test_rates_warm_up_and_fall() -> None:
    factors = [rate_factor(step, warmup=4, total=20, final=0.1) for step in range(25)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[3:20] == sorted(factors[3:20], reverse=True)
    assert factors[12] == pytest.approx(0.55)
    assert factors[20:] == pytest.approx([0.1] * 5)
    assert rate_factor(0, warmup=0, total=1, final=0.1) == 1


def test_training_lowers_every_term(data, tmp_path) -> None:
    batch = full_batch(tiny_model(), CAPTIONS)
    config = whole_config(settings(epochs=40, ema=0.0, patience=99, bf16=False))
    config = replace(config, model=replace(config.model, dropout=0.0))
    make_trainer(data, tmp_path, config, source=FixedSource(batch)).run()
    first, *_, last = (line["loss"] for line in log_of(tmp_path))
    assert all(last[name] < first[name] for name in first), (first, last)
    assert last["caption"] < first["caption"] / 1.5


# Configs


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIG_FOLDER.glob("*.toml")))
def test_every_shipped_config_fits_its_model(name) -> None:
    config = load_config(name)
    assert config == config_from_dict(json.loads(json.dumps(config.to_dict())))
    assert config.data.name in DATASETS
    kind = MODELS[config.model.paper]
    rewarded = ("reward",) if config.train.objective == "self_critical" else ()
    check_loss_weights((*SHARED_TERMS, *kind.auxiliary_terms, *rewarded), config.loss)
    large = config.model.backbone.startswith("instructblip/")
    trunk = tiny_instructblip() if large else tiny_backbone()
    model = kind(config=config.model, backbone=trunk, vocabulary=trunk.vocabulary or tiny_model().vocabulary)
    freeze(model, config.train.frozen)
    build_optimizer(model, config.train)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"model": {"depth": 3}}, "depth"),
        ({"model": {"width": "wide"}}, "width"),
        ({"model": {"width": True}}, "width"),
        ({"model": {"heads": 0}}, "heads"),
        ({"model": {"head_width": 12}}, "head_width"),
        ({"model": {"dropout": 1.0}}, "dropout"),
        ({"model": 3}, "model"),
        ({"data": {"size": 250}}, "size"),
        ({"data": {"trust": "named"}}, "trust"),
        ({"train": {"optimizer": "sgd"}}, "optimizer"),
        ({"train": {"select": "bleu"}}, "select"),
        ({"train": {"epochs": 0}}, "epochs"),
        ({"train": {"patience": 0}}, "patience"),
        ({"train": {"ema": 1.0}}, "ema"),
        ({"train": {"learning_rate": -1.0}}, "learning_rate"),
        ({"train": {"clip": float("nan")}}, "clip"),
        ({"train": {"workers": -1}}, "workers"),
        ({"train": {"label_smoothing": 1.0}}, "label_smoothing"),
        ({"train": {"cache_features": True}}, "frozen"),
        ({"card": {"support": -1}}, "support"),
        ({"card": {"support": 21}}, r"support 21 is not in 0\.\.20"),
        ({"card": {"draws": -1}}, "draws"),
        ({"card": {"support": 8, "draws": 8}}, "set one to 0"),
        ({"loss": {"caption": "much"}}, "caption"),
        ({"loss": {"caption": float("nan")}}, "caption"),
        ({"training": {}}, "training"),
    ],
)
def test_bad_settings_are_refused_by_name(values, word) -> None:
    with pytest.raises(ConfigInvalid, match=word):
        config_from_dict(values)


def test_config_files(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[train]\nlearning_rate = 1\nfrozen = ['backbone']\n")
    config = load_config(path)
    assert config.train.learning_rate == 1.0
    assert config.train.frozen == ("backbone",)
    path.write_text("[train\n")
    with pytest.raises(ConfigInvalid, match=r"own\.toml"):
        load_config(path)
    with pytest.raises(ConfigInvalid, match="rdd_levir_cc"):
        load_config(tmp_path / "none.toml")


# Validation


def test_the_mask_curve_counts_like_the_definition() -> None:
    rng = np.random.default_rng(0)
    probability, mask = rng.random((3, 8, 9)).astype(np.float32), rng.random((3, 8, 9)) > 0.6
    curve = MaskCurve()
    for one in range(3):
        curve.add(probability[one], mask[one])
    f1 = curve.f1()
    for index in (0, 40, 100, 180):
        found = probability >= index / 200
        hits = (found & mask).sum()
        assert f1[index] == pytest.approx(2 * hits / (found.sum() + mask.sum()))
    assert f1[round(curve.best_threshold() * 200)] == f1.max()


def test_validation_masks_are_compared_at_their_own_size(data) -> None:
    model = tiny_model()
    records = [*LevirCC(data, "val").records, PairRecord("no mask", Path("x"), Path("y"))]
    curve = mask_curve(model, records, size=32, bf16=False)
    truth = np.stack([read_pair(r).mask for r in records[:4]])
    assert (curve.changed.sum(), curve.unchanged.sum()) == (truth.sum(), (~truth).sum())
    batches = list(image_batches(records[:4], size=32, batch_size=3))
    assert [tuple(b.before.shape) for b in batches] == [(3, 3, 32, 32), (1, 3, 32, 32)]
    assert batches[0].mask.shape == (3, 64, 64)


def test_caption_validation_speaks_as_in_use(data) -> None:
    """The flag decides between the fixed sentence and the decoder; what begins like it is forbidden."""
    pytest.importorskip("pycocoevalcap")
    records = LevirCC(data, "val").records
    model = tiny_model()
    with torch.no_grad():
        model.changed_head.net[-1].bias.fill_(100)
        all_changed = caption_validation(records, size=32, bf16=False)(model)
        model.changed_head.net[-1].bias.fill_(-100)
        none_changed = caption_validation(records, size=32, bf16=False)(model)
    assert all_changed["flag_accuracy"] == none_changed["flag_accuracy"] == 0.5
    references = {r.id: list(r.captions) for r in records}
    fixed = {i: "there is no difference" for i in references}
    assert none_changed["cider"] == cider(fixed, references)
    assert none_changed["cider_changed"] == cider(
        {r.id: fixed[r.id] for r in records if r.changed},
        {r.id: references[r.id] for r in records if r.changed},
    )
    assert none_changed["cider"] > all_changed["cider"]


def record(captions, changed) -> PairRecord:
    return PairRecord("x", Path("x"), Path("x"), captions=captions, changed=changed)


def test_no_change_beginnings_are_the_shortest_that_changed_captions_lack() -> None:
    records = [
        record(("there is a house", "no trees remain", "the scene shows a house"), True),
        record(("there is no difference", "no change occurs", "the scene is the same"), False),
        record(("the two scenes agree",), False),
        record(("nothing at all",), None),
    ]
    expected = [["no", "change"], ["the", "scene", "is"], ["the", "two"], ["there", "is", "no"]]
    assert no_change_prefixes(records) == expected
    usual = record(
        ("there is a house", "there is a road", "no trees remain", "the scene shows a house"), True
    )
    wrong = record(("there is no road",), True)
    assert ["there", "is", "no"] in no_change_prefixes([*records, *[usual] * 300, wrong]), (
        "1 of 1204: an error"
    )
    assert ["there", "is", "no"] not in no_change_prefixes([*records, *[usual] * 200, wrong]), "1 of 804"
    assert no_change_prefixes(records[1:]) == []


def test_no_change_runs_are_the_shortest_that_changed_captions_lack_anywhere() -> None:
    records = [
        record(("the house is the new one", "no trees remain before it", "a scene of houses"), True),
        replace(record(("a road is built",), True), reversed_captions=("a road is gone as of now",)),
        *[record(("the scene is the same as before", "no change is seen as of now"), False)] * 5,
        record(("one stray sentence",), False),
        record(("nothing at all",), None),
    ]
    # Not "as of now", which is said of a road shown backwards, nor what one caption in eleven has.
    expected = [["change"], ["same"], ["seen"], ["as", "before"], ["scene", "is"], ["the", "scene"]]
    many = [*records[:2] * 200, *records[2:]]
    assert no_change_runs(many) == expected
    three = record(("before this is the place", "the one scene", "no scene is as before"), True)
    found = no_change_runs([*many, three])
    assert found == expected, "1 of 1003: an error"
    assert no_change_runs([*many, three, three])[:3] == expected[:3]
    assert ["as", "before"] not in no_change_runs([*many, three, three]), "2 of 1006"
    assert no_change_runs(records[2:]) == []


def test_three_words_speak_of_no_change_where_two_do_not() -> None:
    changed = [record(("all is as it is said", "it is as new"), True)] * 500
    assert no_change_runs([*changed, record(("it is said",), False)]) == []
    assert no_change_runs([*changed, record(("all is said",), False)]) == [["all", "is", "said"]]


def test_few_changed_captions_keep_the_runs_of_the_start_that_they_lack() -> None:
    records = [
        record(("no house is the same",), True),
        record(("the trees look as they did", "no difference"), False),
    ]
    assert no_change_runs(records) == []
    known = [["same"], ["difference"], ["there", "is"], ["house", "is"]]
    assert no_change_runs(records, known) == [["difference"], ["there", "is"]]


def test_the_changed_threshold_is_the_most_accurate_in_the_widest_gap() -> None:
    probabilities = np.array([0.05, 0.1, 0.2, 0.6, 0.7, 0.9])
    changed = np.array([False, False, False, True, True, True])
    assert best_changed_threshold(probabilities, changed) == pytest.approx(0.4)
    rng = np.random.default_rng(0)
    probabilities, changed = rng.random(50), rng.random(50) > 0.4
    best = best_changed_threshold(probabilities, changed)
    accuracy = ((probabilities >= best) == changed).mean()
    assert accuracy == max(((probabilities >= t) == changed).mean() for t in np.linspace(0, 1, 1001))


# A whole run


def pair_of(data, split="test") -> tuple[np.ndarray, np.ndarray]:
    samples = [read_pair(r) for r in LevirCC(data, split).records]
    return np.stack([s.before for s in samples]), np.stack([s.after for s in samples])


def test_from_folders_to_a_captioner_in_two_stages(data, tmp_path, monkeypatch) -> None:
    """Change head first, then captions from its cached trunk, as the shipped model is made."""
    pytest.importorskip("pycocoevalcap")
    pytest.importorskip("spacy")
    monkeypatch.setattr(runs, "load_text_encoder", lambda name: TinyTextEncoder())
    lines: list[str] = []
    common = {"model": {"backbone": "tiny", "width": 16, "heads": 2, "head_width": 8, "max_words": 12}}
    common["data"] = {"size": 64, "min_count": 1}
    first = config_from_dict(
        common
        | {
            "train": {"select": "mask_f1", "epochs": 2, "batch_size": 4, "ema": 0.9},
            "loss": dict.fromkeys(LOSS, 0) | {"change_mask": 1.0},
        }
    )
    masks = write_change_masks(tmp_path / "masks")
    paths = RunPaths(data=data, output=tmp_path / "first", masks=(masks,))
    head = train_model(first, paths, name="head", command="rscc train", report=lines.append)
    assert head.card.scores["mask_f1"] >= head.card.scores["mask_f1_at_half"]
    assert 0 <= head.card.threshold <= 1

    train = {"epochs": 2, "batch_size": 4, "cache_features": True, "frozen": ["backbone", "change_head"]}
    second = config_from_dict(
        common | {"train": train, "loss": LOSS | {"change_mask": 0}, "card": {"support": 5}}
    )
    paths = RunPaths(data=data, output=tmp_path / "second", trunk=str(tmp_path / "first" / "model"))
    folder = train_model(second, paths, name="words", command="rscc train", report=lines.append)
    assert folder == open_model_folder(tmp_path / "second" / "model", check_hashes=True)
    one, two = (load_file(f.path / "model.safetensors") for f in (head, folder))
    shared = [name for name in one if name.startswith(("backbone.", "change_head."))]
    assert_same_tensors({n: one[n] for n in shared}, {n: two[n] for n in shared})
    assert not any(name.startswith(("noun_tokens", "verb_tokens")) for name in two)
    assert ("there", "is") in folder.no_change_prefixes or ("there",) in folder.no_change_prefixes
    assert folder.no_change_runs == ()
    assert {"cider", "cider_changed", "flag_accuracy", "mask_f1"} <= set(folder.card.scores)
    card = (folder.path / "CARD.md").read_text()
    assert "words 1" in card
    assert "what few of the 5 sentences of the search name" in card
    assert folder.card.support == 5
    assert "7 training and 4 validation pairs" in card
    assert any(line.startswith("epoch 2") for line in lines)

    captioner = Captioner.load(folder.path, device="cpu")
    before, after = pair_of(data)
    assert captioner.predict_change(before, after).change_probability.shape == (2, 64, 64)
    found = captioner.caption(before, after, assume_changed=True)
    assert all(caption.text and not caption.text.startswith("there") for caption in found)


def test_a_run_on_images_reads_the_test_split_never(data, tmp_path) -> None:
    pytest.importorskip("pycocoevalcap")
    copy = write_levir_cc(tmp_path / "data", train=5, val=2, test=1)
    for path in (copy / "images" / "test").rglob("*.png"):
        path.unlink()
    config = Config(
        model=tiny_config(max_words=12),
        data=DataConfig(size=64, min_count=1, trust=("named",)),
        train=TrainConfig(epochs=1, batch_size=2, frozen=("change_head",)),
        loss={"caption": 1.0, "changed": 0.5, "n2o": 0, "v2a": 0, "change_mask": 0},
    )
    paths = RunPaths(data=copy, output=tmp_path / "run")
    folder = train_model(config, paths, name="x", command="rscc train", report=lambda line: None)
    assert "2 training and 2 validation pairs" in folder.card.data


def test_a_trunk_of_another_size_is_refused(data, tmp_path) -> None:
    config = whole_config(settings(), n2o=0.0, v2a=0.0)
    vocabulary = tiny_model().vocabulary
    model = runs.build_model(config, vocabulary, RunPaths(data=data, output=tmp_path))
    finish(
        model.eval(),
        TrainResult(1, {"cider": 0.0}, tmp_path / "none", 60.0),
        replace(config, loss=dict.fromkeys(LOSS, 0.0)),
        val=LevirCC(data, "val").records,
        captions=LevirCC(data, "train").records,
        name="x",
        command="x",
        paths=RunPaths(data=data, output=tmp_path),
    )
    trunk = RunPaths(data=data, output=tmp_path, trunk=str(tmp_path / "model"))
    assert runs.build_model(config, vocabulary, trunk)
    other = replace(config, model=replace(config.model, head_width=16))
    with pytest.raises(ModelFolderInvalid, match="change_head"):
        runs.build_model(other, vocabulary, trunk)
    with pytest.raises(ConfigInvalid, match="not both"):
        runs.build_model(config, vocabulary, replace(trunk, backbone_weights=Path("x")))


def test_a_mask_run_without_masks_is_refused(tmp_path) -> None:
    root = write_levir_cc(tmp_path / "data", labels=False)
    config = whole_config(settings(), **{**dict.fromkeys(LOSS, 0.0), "change_mask": 1.0})
    paths = RunPaths(data=root, output=tmp_path / "run")
    with pytest.raises(DatasetLayoutInvalid, match="mask"):
        train_model(config, paths, name="x", command="x", report=lambda line: None)
    config = replace(config, train=replace(config.train, select="mask_f1"))
    masks = write_change_masks(tmp_path / "masks")
    with pytest.raises(ConfigInvalid, match="validation pair"):
        train_model(config, replace(paths, masks=(masks,)), name="x", command="x", report=lambda line: None)


def test_mask_training_runs_the_trunk_and_its_head_alone(data, tmp_path) -> None:
    source = MaskSource(LevirCC(data, "train").records, batch_size=4, size=32, gsd=0.5, augment=True, seed=1)
    model = tiny_model()
    config = whole_config(settings(epochs=1), **{**dict.fromkeys(LOSS, 0.0), "change_mask": 1.0})
    Trainer(model, source, sum_of_weights, config=config, folder=tmp_path, report=lambda line: None).run()
    moved = {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None}
    assert moved == {"backbone", "change_head"}
    before, after = random_images(1)
    assert torch.isfinite(model.encode(before, after).change_logits).all()
