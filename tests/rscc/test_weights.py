"""Weights and answers that are not all numbers: no threshold is below NaN, so they would be "no change"."""

import pickle

import numpy as np
import pytest
import torch
from saved_models import edit_member, saved, tiny_facts, tiny_phrasing
from tiny_models import overflowing, random_arrays, tiny_model

from rscc.captioner import Captioner
from rscc.errors import ModelFolderInvalid, NonFiniteOutput
from rscc.model_folder import load_facts, load_model, open_model_folder
from rscc.weights import check_finite

pytestmark = pytest.mark.usefixtures("tiny_registered")


@torch.no_grad()
def with_value(module, name, value):
    """Set the last number of a parameter."""
    module.get_parameter(name).flatten()[-1] = value
    return module


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30], ids=str)
def test_weights_that_are_no_numbers_are_refused_by_name(value, tmp_path) -> None:
    model = tiny_model(seed=2)
    names = [name for name, parameter in model.named_parameters() if parameter.ndim >= 2]
    folder = saved(tmp_path / "model", with_value(model, names[3], value))  # in half precision 1e30 is none
    with pytest.raises(ModelFolderInvalid) as caught:
        load_model(open_model_folder(folder.path, check_hashes=True))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["heads.project.bias", "phrasing.mean"])
def test_facts_that_are_no_numbers_are_refused_by_name(name, tmp_path) -> None:
    facts = tiny_facts(tiny_phrasing())
    assert load_facts(saved(tmp_path / "sound", facts=facts)) is not None
    if name == "heads.project.bias":
        with_value(facts.heads, "project.bias", float("nan"))
    else:
        facts.phrasing.mean[0] = np.inf
    folder = saved(tmp_path / "model", facts=facts)
    with pytest.raises(ModelFolderInvalid):
        Captioner.load(folder.path, device="cpu")


@pytest.mark.parametrize("paper", ["rdd", "scorer", "dirl"])
def test_a_network_that_overflows_is_no_answer(paper, tmp_path) -> None:
    folder = saved(tmp_path / "model", overflowing(tiny_model(paper)), facts=tiny_facts())
    captioner = Captioner.load(folder.path, device="cpu")
    dates = random_arrays(2)
    for ask in (
        lambda: captioner.predict_change(*dates),
        lambda: captioner.caption(*dates, ground=False),
        lambda: captioner.caption(*dates, assume_changed=True),
        lambda: captioner.describe(*dates),
        lambda: captioner.survey(*dates),
        lambda: captioner.explain(dates[0][0], dates[1][0]),
    ):
        with pytest.raises(NonFiniteOutput) as caught:
            ask()
        assert caught.value.pairs[0] == 0 and caught.value.exit_code == 1


def test_the_pair_that_fails_is_told_apart() -> None:
    sound = torch.zeros(4, 3, 2)
    check_finite("tiny", sound, None)
    broken = sound.clone()
    broken[2, 1, 1] = float("inf")
    with pytest.raises(NonFiniteOutput) as caught:
        check_finite("tiny", sound, broken)
    assert caught.value.pairs == [2]
    copied = pickle.loads(pickle.dumps(caught.value))
    assert copied.pairs == [2] and str(copied) == str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape"), [("slopes", (15,)), ("offsets", (15,)), ("sure", (15,)), ("around", (7, 8))]
)
def test_rules_that_are_no_numbers_are_refused(name, shape, tmp_path) -> None:
    folder = saved(tmp_path / "model", facts=tiny_facts())
    edit_member("facts.json", **{f"rules__{name}": np.full(shape, np.nan).tolist()})(folder.path)
    with pytest.raises(ModelFolderInvalid):
        load_facts(folder)
