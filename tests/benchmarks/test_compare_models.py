"""The comparison's variants differ in nothing but what they say, and its table is what the runs scored."""

import json
import math

import pytest
from compare_models import HERE, earlier_lines, read_variants, run_line, scored, summary
from markdown_tables import cells_of
from model_sizes import build

from rscc.config import config_from_dict
from rscc.models.shared.losses import check_loss_weights

TITLES, CONFIGS = read_variants(HERE / "compare_models.toml")


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_variant_builds_and_weights_every_term(name) -> None:
    config = config_from_dict(CONFIGS[name], name)
    check_loss_weights(build(config.model).loss_terms(), config.loss)


def test_variants_share_everything_but_their_model_and_its_losses() -> None:
    shared = []
    for values in CONFIGS.values():
        config = config_from_dict(values)
        losses = {term: config.loss[term] for term in ("caption", "changed", "change_mask")}
        sizes = {k: v for k, v in vars(config.model).items() if k not in ("paper", "options")}
        shared.append((sizes, config.data, config.train, losses))
    assert all(one == shared[0] for one in shared)


def test_the_table_reads_what_the_runs_wrote(tmp_path) -> None:
    def epoch(number, cider, best):
        scores = {"validation": {"cider": cider}, "loss": {"caption": 4 - number}}
        return {"epoch": number, "best": best, **scores}

    for seed, cider in ((1, 90.0), (2, 110.0)):
        folder = tmp_path / f"rdd-{seed}"
        folder.mkdir()
        log = [epoch(1, 50.0, True), epoch(2, cider, True), epoch(3, 40.0, False)]
        (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
        row = {"bleu4": 40.0, "meteor": 30.0, "rouge_l": 60.0, "cider": cider + 1, "flag_accuracy": 0.9}
        row["beams"] = 3
        (folder / "config.json").write_text(json.dumps({"train": {"bf16": False}}))
        (folder / "scores.json").write_text(json.dumps({"all": row, "changed": {**row, "cider": 50.0}}))
    lines = [run_line("rdd", seed, tmp_path) for seed in (1, 2)]
    assert cells_of(summary(lines, {"rdd": "RDD+ACR"}))[-1] == [
        *("RDD+ACR", "beam of 3"),
        *("40.0 ± 0.0", "30.0 ± 0.0", "60.0 ± 0.0", "101.0 ± 14.1", "50.0 ± 0.0"),
        *("100.0 ± 14.1", "90.0 ± 0.0"),
    ]
    assert [line["best_epoch"] for line in lines] == [2, 2]
    assert (lines[0]["first_loss"], lines[0]["last_loss"]) == ({"caption": 3}, {"caption": 1})
    assert not math.isnan(lines[1]["test"]["changed"]["cider"])


def test_what_was_scored_with_other_beams_is_scored_anew(tmp_path) -> None:
    assert not scored(tmp_path, 3)
    for row, again in (({}, True), ({"beams": 1}, True), ({"beams": 3}, False)):
        (tmp_path / "scores.json").write_text(json.dumps({"all": row}))
        assert scored(tmp_path, 3) != again


def test_the_lines_of_an_earlier_call_stand_for_its_runs(tmp_path) -> None:
    lines = [{"variant": "rdd", "seed": 1, "beams": 3}, {"variant": "rdd", "seed": 2, "beams": 1}]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert earlier_lines(file, 3) == {("rdd", 1): lines[0]}
    assert earlier_lines(None, 3) == {}
