"""Going on with the training of a model on a user's own pairs."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_fixtures import edit_json
from levir_cc_fixture import write_index, write_levir_cc
from markdown_tables import cells_of
from saved_models import saved, saved_start
from tiny_facts import tiny_facts, tiny_heads
from tiny_models import tiny_model
from training_runs import assert_same_tensors, trained

from rscc.config import Config, load_config
from rscc.data.benchmarks.levir_cc import LevirCC
from rscc.data.pairs import PairRecord
from rscc.errors import ConfigInvalid, DatasetLayoutInvalid
from rscc.evaluation.run import score_model
from rscc.model_folder import find_model, load_facts, open_model_folder
from rscc.sequences import evenly
from rscc.training import finetuning, finish
from rscc.training import run as runs
from rscc.training.finetuning import (
    Comparison,
    compare_scores,
    describe_pairs,
    doubts_about,
    hold_out,
    read_splits,
)
from rscc.training.start import RunPaths, finetuning_config, learns_facts_alone, open_start

pytestmark = pytest.mark.usefixtures("tiny_registered")


def record(number: int, changed: bool | None = None) -> PairRecord:
    flag = number % 3 == 0 if changed is None else changed
    return PairRecord(f"{number:03d}.png", Path("a"), Path("b"), captions=("a house appears",), changed=flag)


def keep_splits(root: Path, *splits: str, flag: int | None = None) -> Path:
    """Leave only the entries of some splits, or of one flag, in a data set's annotations."""

    def keep(content) -> None:
        content["images"] = [
            one for one in content["images"] if one["split"] in splits and flag in (None, one["changeflag"])
        ]

    edit_json(root / "LevirCCcaptions.json", keep)
    return root


def write_start(path: Path) -> Path:
    return saved_start(path, tiny_model(seed=3), gsd=0.5, runs=[["same"], ["lunar", "house"]])


def tuning(start: Path, **train) -> Config:
    config = finetuning_config(load_config("finetune"), open_start(start))
    return replace(
        config, train=replace(config.train, **{"epochs": 2, "bf16": False, "keep_start": False, **train})
    )


def tune(tmp_path: Path, data: Path, **train) -> tuple[Path, list[str]]:
    start, lines = write_start(tmp_path / "start"), []
    paths = RunPaths(data=data, output=tmp_path / "run", start=str(start))
    folder = trained(tuning(start, **train), paths, report=lines.append)
    return folder.path, lines


@pytest.mark.parametrize(("count", "held"), [(20, 10), (50, 10), (51, 10), (103, 21)])
def test_a_share_of_both_kinds_is_held_out(count, held) -> None:
    records = [record(number) for number in range(count)]
    train, val = hold_out(records, seed=1)
    assert len(val) == held
    assert sorted([*train, *val], key=lambda one: one.id) == records
    share = sum(one.changed for one in val) / held
    assert share == pytest.approx(sum(one.changed for one in records) / count, abs=1 / held)


def test_what_is_held_out_depends_on_pairs_and_seed_alone() -> None:
    records = [record(number) for number in range(40)]
    ids = {one.id for one in hold_out(records, seed=1)[1]}
    assert ids == {one.id for one in hold_out(records[::-1], seed=1)[1]}
    assert ids != {one.id for one in hold_out(records, seed=2)[1]}


def test_a_validation_split_is_taken_as_it_is_and_without_one_training_pairs_are_held_out(tmp_path) -> None:
    data = write_levir_cc(tmp_path, train=24, val=2, test=1, size=16)
    train, val, held_out = read_splits(LevirCC, data)
    ids = ["val_000000.png", "val_000001.png"]
    assert (len(train), [one.id for one in val], held_out) == (24, ids, False)
    train, val, held_out = read_splits(LevirCC, keep_splits(data, "train", "test"))
    assert (len(train), len(val), held_out) == (14, 10, True)
    assert all(one.id.startswith("train") for one in val)


def test_a_validation_split_with_a_fault_is_no_absent_one(tmp_path) -> None:
    data = write_levir_cc(tmp_path, train=24, val=2, test=1, size=16)
    edit_json(data / "LevirCCcaptions.json", lambda content: content["images"].append(content["images"][24]))
    with pytest.raises(DatasetLayoutInvalid, match=r"val_000000\.png stands 2 times in split 'val'"):
        read_splits(LevirCC, data)


@pytest.mark.parametrize(("train", "val", "word"), [(9, 2, "needs 10$"), (19, 0, "10 and 10 to hold out")])
def test_too_few_pairs_are_refused(train, val, word, tmp_path) -> None:
    data = write_levir_cc(tmp_path, train=train, val=val, test=1, size=16)
    with pytest.raises(DatasetLayoutInvalid, match=word) as caught:
        read_splits(LevirCC, data)
    assert f"{data}: {train} captioned training pairs" in str(caught.value)
    with pytest.raises(DatasetLayoutInvalid, match="LevirCCcaptions"):
        read_splits(LevirCC, data / "images")


def test_what_is_learnt_is_said() -> None:
    some = [record(number) for number in range(12)]
    (line,) = describe_pairs(some, some[:5], held_out=False, learns_flag=True)
    told = "12 (4 changed, 8 unchanged) for training; 5 (2 changed, 3 unchanged) for validation"
    assert line == f"pairs: {told}"
    (line,) = describe_pairs(some, some[:5], held_out=True, learns_flag=True)
    assert line.endswith("held out of the training split, for there is no split val")
    for changed, word in ((True, "all training pairs are changed"), (False, "all training pairs are unch")):
        same = [record(number, changed) for number in range(12)]
        warning = describe_pairs(same, same, held_out=False, learns_flag=False)[1]
        assert warning.startswith(f"warning: {word}")


def test_what_cannot_be_taught_is_said() -> None:
    base, medium = (open_model_folder(find_model(name)).card for name in ("rscc-base", "rscc-medium"))
    fine, coarse = (replace(record(0), gsd=gsd) for gsd in (0.5, 10.0))
    assert doubts_about(base, [fine, record(1)]) == []
    (line,) = doubts_about(base, [fine, coarse])
    assert line.startswith(
        "warning: 1 of 2 training pairs are not of the 0.2 to 1.2 m per pixel that rscc-base"
    )
    (line,) = doubts_about(medium, [coarse])
    assert "rscc-medium make their sentences of indices" in line
    assert "the words of --no-ground only" in line


def test_scores_are_compared_on_pairs_at_even_distances() -> None:
    records = [record(number) for number in range(10)]
    assert evenly(records, 10) == records
    assert [one.id for one in evenly(records, 4)] == ["000.png", "002.png", "005.png", "007.png"]


def test_the_table_holds_the_scores_of_both_models(tmp_path, monkeypatch) -> None:
    data = write_levir_cc(tmp_path / "data", val=6)
    start = write_start(tmp_path / "start")
    val = LevirCC(data, "val").records
    comparison = compare_scores(start, start, val, device="cpu")
    assert comparison.gain == comparison.gain_changed == (0, 0) and not comparison.surely_better
    rows = {row.subset: row.as_dict() for row in score_model(start, val, device="cpu")}
    cells = cells_of(comparison.table)
    assert cells[0] == ["6 validation pairs", "before", "after"]
    shown = [one for _, one, _ in cells[2:]]
    scores = [rows["all"]["cider"], rows["changed"]["cider"], rows["all"]["bleu4"]]
    assert [shown[0], shown[1], shown[3]] == [f"{score:.1f}" for score in scores]
    assert shown[2] == f"{rows['all']['flag_accuracy']:.3f}"
    monkeypatch.setattr(finetuning, "MOST_COMPARED", 3)
    assert compare_scores(start, start, val, device="cpu").table.startswith("| 3 validation pairs")


@pytest.mark.slow
def test_a_user_is_told_pairs_and_scores_before_and_after(tmp_path) -> None:
    data = keep_splits(write_levir_cc(tmp_path / "data", train=24, val=2, test=1), "train", "test")
    for path in (data / "images" / "test").rglob("*.png"):
        path.unlink()
    folder, lines = tune(tmp_path, data, epochs=30, patience=30, learning_rate=5e-3)
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
    monkeypatch.setattr(runs, "compare_scores", lambda *_, **__: Comparison("table", gain, of_changed))
    edit_json(data / "LevirCCcaptions.json", lambda content: content.update(gsd=10.0))
    folder, lines = tune(tmp_path, data, epochs=1, keep_start=True)
    assert lines[1].startswith("warning: 24 of 24 training pairs are not of the ")
    start = (tmp_path / "start" / "model.safetensors").read_bytes()
    assert ((folder / "model.safetensors").read_bytes() == start) is is_kept
    tuned = tmp_path / "run" / "tuned" / "model.safetensors"
    assert tuned.is_file() is is_kept and (not is_kept or tuned.read_bytes() != start)
    told = [f"{low:+.1f} to {high:+.1f}" for low, high in (gain, of_changed)]
    assert f"CIDEr gains {told[0]}, of changed pairs {told[1]} (95 %)" in lines[-1]
    assert ("the start as it was" in lines[-1]) is is_kept


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
        return Comparison("table", learnt, learnt)

    monkeypatch.setattr(finetuning, "compare_scores", compare)
    doubtful = Comparison("table", (-1.0, 2.0), (0.0, 0.0))
    line = finetuning.keep_better(made, start, doubtful, [], same_trunk=same_trunk, device="cpu")
    taken = open_model_folder(made.path, check_hashes=True)
    assert taken.card.weights_sha256 == start.card.weights_sha256
    assert made.card.weights_sha256 == open_model_folder(tmp_path / "run" / "tuned").card.weights_sha256
    assert len(compared) == same_trunk
    for before, heads in compared:
        assert before == start.path
        assert_same_tensors(heads, moved.heads.state_dict())
    if is_taken:
        assert "the start with the facts that it learnt on, CIDEr gains -3.0 to +9.0" in line
        assert (taken.card.name, taken.card.version) == ("mine", "1")
        assert taken.card.data.endswith("Facts learnt on from my pairs.")
        assert taken.card.facts_sha256 == made.card.facts_sha256 != start.card.facts_sha256
    else:
        assert "the start as it was" in line and taken.card == start.card
    assert "not surely better: CIDEr gains -1.0 to +2.0" in line


@pytest.mark.parametrize(
    ("learns", "gain", "told"),
    [
        (True, (-3.0, 9.0), "the start with the facts that it learnt on, CIDEr gains -3.0 to +9.0"),
        (True, (-9.0, -1.0), "the start as it was: the validation pairs speak against what it learnt"),
        (False, (0.0, 0.0), "the start as it was: its facts learn nothing better from these pairs"),
    ],
    ids=["as good", "worse", "no better"],
)
def test_of_a_start_that_tells_facts_these_learn_on_alone(learns, gain, told, tmp_path, monkeypatch) -> None:
    data = write_levir_cc(tmp_path / "data", train=24, val=4, test=1)
    start = saved(tmp_path / "start", tiny_model(seed=3), name="first", facts=tiny_facts())
    moved, asked = replace(tiny_facts(), heads=tiny_heads(seed=8)), []

    def fit(model, records, *, start, **how):
        asked.append((len(records), how["size"], how["threshold"]))
        return moved if learns else start

    monkeypatch.setattr(finish, "fit_facts", fit)
    monkeypatch.setattr(finetuning, "compare_scores", lambda *_, **__: Comparison("table", gain, gain))
    lines: list[str] = []
    paths = RunPaths(data=data, output=tmp_path / "run", start=str(start.path))
    settings = tuning(start.path, keep_start=True)
    paths.output.mkdir()
    (paths.output / "checkpoint.pt").write_text("of a run that is replaced")
    with pytest.raises(ConfigInvalid, match="its run learnt more than facts"):
        trained(settings, paths, name="mine", resume=True, report=lines.append)
    with pytest.raises(ConfigInvalid, match="not both"):
        trained(settings, replace(paths, backbone_weights=Path("x")), resume=False, overwrite=True)
    assert (paths.output / "checkpoint.pt").is_file() and not asked
    made = trained(settings, paths, name="mine", overwrite=True, report=lines.append)
    assert {path.name for path in paths.output.iterdir()} == {"model"}
    assert asked == [(24, start.card.tile_size, start.card.threshold)]
    assert lines[-1].startswith(f"{made.path}: {told}")
    assert made.card.weights_sha256 == start.card.weights_sha256
    if learns and gain[1] > 0:
        heads = load_facts(open_model_folder(made.path, check_hashes=True)).heads
        assert_same_tensors(heads.state_dict(), moved.heads.state_dict())
        assert made.card.name == "mine" and made.card.data.endswith("24 training and 4 validation pairs.")
    else:
        assert made.card == start.card


def test_roads_that_were_learnt_alone_are_told_as_such(tmp_path, monkeypatch) -> None:
    data = write_levir_cc(tmp_path / "data", train=24, val=4, test=1)
    start = saved(tmp_path / "start", tiny_model(seed=3), facts=tiny_facts())
    write_index(tmp_path / "dates", "file,class,gsd_m", [("a.png", "road", 0.5)])
    write_index(tmp_path / "dates", "file,class,gsd_m", [("a.png", "road", 0.5)])
    gain = (0.0, 0.0)
    monkeypatch.setattr(finish, "fit_facts", lambda *_, start, **how: start)
    monkeypatch.setattr(finish, "fit_roads", lambda *_, **how: None)
    monkeypatch.setattr(finetuning, "compare_scores", lambda *_, **__: Comparison("table", gain, gain))
    lines: list[str] = []
    paths = RunPaths(data=data, output=tmp_path / "run", start=str(start.path), roads=tmp_path / "dates")
    made = trained(tuning(start.path, keep_start=True), paths, report=lines.append)
    told = "the start with a new road head; its facts learn nothing better from these pairs"
    assert lines[-1].startswith(f"{made.path}: {told}")
    assert made.card.data.endswith(f"Road head learnt from {tmp_path / 'dates'}.")
    assert "Facts learnt on" not in made.card.data


def test_facts_do_not_learn_alone_where_more_is_asked_for(tmp_path) -> None:
    start = open_start(saved(tmp_path / "start", tiny_model(seed=3), facts=tiny_facts()).path)
    paths = RunPaths(data=tmp_path, output=tmp_path / "run", start=str(start.folder.path))
    settings = tuning(start.folder.path)
    assert learns_facts_alone(start, paths, settings)
    whole = replace(settings, train=replace(settings.train, facts_alone=False))
    assert not learns_facts_alone(start, paths, whole)
    assert not learns_facts_alone(start, replace(paths, also=(tmp_path,)), settings)
    assert not learns_facts_alone(start, replace(paths, trunk="rscc-small"), settings)
    assert not learns_facts_alone(open_start(write_start(tmp_path / "silent")), paths, settings)


def test_pairs_of_one_kind_are_warned_of(tmp_path) -> None:
    data = keep_splits(write_levir_cc(tmp_path / "data", train=40), "train", "val", flag=1)
    folder, lines = tune(tmp_path, data)
    assert lines[1].startswith("warning: all training pairs are changed")
    assert open_start(folder).folder.card.changed_threshold == 0
    assert "CIDEr, changed pairs" in lines[-1]
