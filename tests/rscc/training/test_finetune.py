"""Going on with the training of a model on a user's own pairs."""

from dataclasses import replace
from pathlib import Path

import pytest
from datasets import edit_json, write_levir_cc
from report_checks import cells_of
from saved_models import saved, saved_start, tiny_facts, tiny_heads
from tiny_models import tiny_model
from training_runs import assert_same_tensors, trained

from rscc.config import Config
from rscc.configs import load_config
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.errors import DatasetLayoutInvalid
from rscc.model_folder import load_facts, open_model_folder
from rscc.training import finetuning
from rscc.training.finetuning import Comparison, compare_scores
from rscc.training.training_data import hold_out, read_splits
from rscc.training.training_run import Run, RunPaths, finetuning_config, open_start

pytestmark = pytest.mark.usefixtures("tiny_registered")


def keep_splits(root: Path, *splits: str) -> Path:
    """Leave only the entries of some splits in a data set's annotations."""

    def keep(content) -> None:
        content["images"] = [one for one in content["images"] if one["split"] in splits]

    edit_json(root / "LevirCCcaptions.json", keep)
    return root


def tuning(start: Path, **train) -> Config:
    config = finetuning_config(load_config("finetune"), open_start(start))
    return replace(
        config, train=replace(config.train, **{"epochs": 2, "bf16": False, "keep_start": False, **train})
    )


def tune(tmp_path: Path, data: Path, **train) -> tuple[Path, list[str]]:
    lines: list[str] = []
    runs = [["same"], ["lunar", "house"]]
    start = saved_start(tmp_path / "start", tiny_model(seed=3), gsd=0.5, runs=runs)
    paths = RunPaths(data=data, output=tmp_path / "run", start=str(start))
    folder = trained(tuning(start, **train), paths, report=lines.append)
    return folder.path, lines


@pytest.mark.parametrize(("count", "held"), [(20, 10), (50, 10), (51, 10), (103, 21)])
def test_a_share_of_both_kinds_is_held_out(count, held) -> None:
    paths = Path("a"), Path("b")
    records = [PairRecord(f"{n:03d}.png", *paths, captions=("a",), changed=n % 3 == 0) for n in range(count)]
    train, val = hold_out(records, seed=1)
    assert len(val) == held
    assert sorted([*train, *val], key=lambda one: one.id) == records
    share = sum(one.changed for one in val) / held
    assert share == pytest.approx(sum(one.changed for one in records) / count, abs=1 / held)


def test_a_validation_split_is_taken_as_it_is_and_without_one_training_pairs_are_held_out(tmp_path) -> None:
    data = write_levir_cc(tmp_path, train=24, val=2, test=1, size=16)
    train, val, held_out = read_splits(LevirCC, data)
    ids = ["val_000000.png", "val_000001.png"]
    assert (len(train), [one.id for one in val], held_out) == (24, ids, False)
    train, val, held_out = read_splits(LevirCC, keep_splits(data, "train", "test"))
    assert (len(train), len(val), held_out) == (14, 10, True)
    assert all(one.id.startswith("train") for one in val)


@pytest.mark.parametrize(("train", "val"), [(9, 2), (19, 0)])
def test_too_few_pairs_are_refused(train, val, tmp_path) -> None:
    data = write_levir_cc(tmp_path, train=train, val=val, test=1, size=16)
    with pytest.raises(DatasetLayoutInvalid):
        read_splits(LevirCC, data)
    with pytest.raises(DatasetLayoutInvalid):
        read_splits(LevirCC, data / "images")


@pytest.mark.slow
def test_a_user_is_told_pairs_and_scores_before_and_after(tmp_path) -> None:
    data = keep_splits(write_levir_cc(tmp_path / "data", train=24, val=2, test=1), "train", "test")
    for path in (data / "images" / "test").rglob("*.png"):
        path.unlink()
    folder, lines = tune(tmp_path, data, epochs=12, patience=12, learning_rate=5e-3)
    assert lines[0].startswith("pairs: 14 (7 changed, 7 unchanged) for training; 10 (5 changed, 5 unchanged)")
    title, drawn = lines[-2:]
    assert title == "scores on the validation split, before and after:"
    before, after = map(float, cells_of(drawn)[2][1:])
    assert after > before
    val = read_splits(LevirCC, data, seed=1)[1]
    assert drawn == compare_scores(tmp_path / "start", folder, val, device="cpu").table
    few = open_start(folder).folder
    assert few.no_change_runs == open_start(tmp_path / "start").folder.no_change_runs != ()


@pytest.mark.parametrize(
    ("gain", "of_changed", "is_kept"),
    [
        ((-3.0, 9.0), (1.0, 2.0), True),
        ((0.5, 9.0), (-4.0, 1.0), False),
        ((0.5, 9.0), (-4.0, -1.0), True),
        ((-9.0, -1.0), (1.0, 2.0), True),
    ],
)
def test_the_start_stays_unless_the_tuned_model_is_surely_better(
    gain, of_changed, is_kept, tmp_path, monkeypatch
) -> None:
    data = write_levir_cc(tmp_path / "data", train=24, val=4, test=1)
    monkeypatch.setattr(finetuning, "compare_scores", lambda *_, **__: Comparison("table", gain, of_changed))
    edit_json(data / "LevirCCcaptions.json", lambda content: content.update(gsd=10.0))
    folder, lines = tune(tmp_path, data, epochs=1, keep_start=True)
    assert lines[1].startswith("warning: 24 of 24 ")
    start = (tmp_path / "start" / "model.safetensors").read_bytes()
    assert ((folder / "model.safetensors").read_bytes() == start) is is_kept
    tuned = tmp_path / "run" / "tuned" / "model.safetensors"
    assert tuned.is_file() is is_kept and (not is_kept or tuned.read_bytes() != start)
    told = [f"{low:+.1f} to {high:+.1f}" for low, high in (gain, of_changed)]
    assert all(gains in lines[-1] for gains in told)
    assert ("the unchanged start" in lines[-1]) is is_kept


@pytest.mark.parametrize(
    ("learnt", "same_trunk", "is_taken"),
    [((-3.0, 9.0), True, True), ((-9.0, -1.0), True, False), ((-3.0, 9.0), False, False)],
    ids=["as good", "worse", "of another trunk"],
)
def test_the_start_gets_the_facts_that_learnt_on_unless_pairs_speak_against_it(
    learnt, same_trunk, is_taken, tmp_path, monkeypatch
) -> None:
    start = saved(tmp_path / "start", tiny_model(seed=3), name="first", version="3", facts=tiny_facts())
    moved = replace(tiny_facts(), heads=tiny_heads(seed=8))
    made = saved(
        tmp_path / "run" / "model", tiny_model(seed=4), name="mine", version="1", facts=moved, data="my pairs"
    )
    compared = []

    def compare(before, after, records, *, device) -> Comparison:
        compared.append((before, load_facts(open_model_folder(after)).heads.state_dict()))
        doubtful = Comparison("table", (-1.0, 2.0), (0.0, 0.0))
        return doubtful if len(compared) == 1 else Comparison("table", learnt, learnt)

    monkeypatch.setattr(finetuning, "compare_scores", compare)
    lines: list[str] = []
    settings = tuning(start.path, keep_start=True)
    if not same_trunk:
        settings = replace(settings, train=replace(settings.train, frozen=("backbone",)))
    paths = RunPaths(data=tmp_path, output=tmp_path / "run", start=str(start.path))
    run = Run(settings, paths, "mine", "x", report=lines.append, start=open_start(start.path))
    taken = finetuning.choose_better(run, made, [])
    line = lines[-1]
    assert taken == open_model_folder(made.path, check_hashes=True)
    assert taken.card.weights_sha256 == start.card.weights_sha256
    assert made.card.weights_sha256 == open_model_folder(tmp_path / "run" / "tuned").card.weights_sha256
    assert len(compared) == 1 + same_trunk
    for before, heads in compared:
        assert before == start.path
        assert_same_tensors(heads, moved.heads.state_dict())
    if is_taken:
        assert "the start with retrained facts, CIDEr gains -3.0 to +9.0" in line
        assert (taken.card.name, taken.card.version) == ("mine", "1")
        assert taken.card.data.endswith("my pairs.")
        assert taken.card.facts_sha256 == made.card.facts_sha256 != start.card.facts_sha256
    else:
        assert "the unchanged start" in line and taken.card == start.card
    assert "CIDEr gains -1.0 to +2.0" in line
