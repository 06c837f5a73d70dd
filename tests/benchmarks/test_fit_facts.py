"""The script that teaches a model folder to tell facts."""

from dataclasses import replace

import fit_facts
import pytest
import torch
from levir_cc_fixture import write_levir_cc
from saved_models import saved
from synthesis_fixture import write_single_date
from tiny_facts import tiny_facts

pytest.importorskip("spacy")

from rscc.model_folder import load_facts, open_model_folder, sha256_of
from rscc.training import fact_rules, facts

pytestmark = pytest.mark.usefixtures("tiny_registered")


@pytest.fixture
def words(tmp_path) -> list[str]:
    """Arguments: a tiny model, twelve pairs of training, the folder to write."""
    data = write_levir_cc(tmp_path / "data", train=12, val=4)
    model = saved(tmp_path / "model").path
    return [str(model), "--data", str(data), "--output", str(tmp_path / "taught")]


@pytest.mark.slow
def test_a_folder_is_taught_and_stays_the_same_captioner(words, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(facts, "FEWEST_PAIRS", 6)
    monkeypatch.setattr(fact_rules, "FEWEST_LABELS", 2)
    fit_facts.main([*words, "--version", "77"])
    taught = open_model_folder(tmp_path / "taught", check_hashes=True)
    assert taught.card.facts_sha256 and taught.card.version == "77"
    assert (taught.path / "CARD.md").read_text(encoding="utf-8").startswith(f"# {taught.card.name} 77\n")
    start = open_model_folder(tmp_path / "model").card
    assert replace(taught.card, facts_sha256="", version=start.version) == start
    weights = [sha256_of(tmp_path / name / "model.safetensors") for name in ("model", "taught")]
    assert weights[0] == weights[1]
    told = load_facts(taught)
    assert told is not None and told.phrasing is not None and told.phrasing.rarity
    printed = capsys.readouterr().out
    assert "facts: 12 pairs seen" in printed
    assert "came building" in told.rules.scores
    for name, score in told.rules.scores.items():
        (row,) = (line for line in printed.splitlines() if line.startswith(f"| {name} "))
        assert f"{score['auc']:g}" in row


def test_too_few_pairs_are_refused_in_one_line(words, tmp_path) -> None:
    with pytest.raises(SystemExit, match="too few changed pairs") as caught:
        fit_facts.main(words)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "taught").exists()


@pytest.mark.slow
def test_roads_are_learnt_and_the_facts_stay(tmp_path, capsys) -> None:
    start = saved(tmp_path / "model", facts=tiny_facts())
    roads = write_single_date(tmp_path / "single")
    fit_facts.main([str(start.path), "--roads", str(roads), "--output", str(tmp_path / "taught")])
    old, new = (
        load_facts(open_model_folder(tmp_path / name, check_hashes=True)) for name in ("model", "taught")
    )
    assert old is not None and new is not None
    assert (old.roads, new.rules) == (None, old.rules) and new.roads is not None
    for name, value in old.heads.state_dict().items():
        assert torch.equal(value, new.heads.state_dict()[name])
    printed = capsys.readouterr().out
    card = (tmp_path / "taught" / "CARD.md").read_text(encoding="utf-8")
    told = f"from others with an AUC of {new.roads.stored['area']:g}"
    assert told in printed and told in card


def test_roads_without_facts_are_refused(tmp_path) -> None:
    start = saved(tmp_path / "model")
    with pytest.raises(SystemExit, match="no facts"):
        fit_facts.main([str(start.path), "--roads", str(tmp_path), "--output", str(tmp_path / "taught")])
    assert not (tmp_path / "taught").exists()
