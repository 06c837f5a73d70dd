"""Losses, frozen parts, averages and rates of the training loop."""

import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import CAPTIONS, TinyTextEncoder, full_batch, tiny_model
from training_runs import LOSS, FixedSource, assert_same_tensors, log_of, make_trainer, settings, whole_config

from rscc.config import TrainConfig
from rscc.errors import NonFiniteLoss
from rscc.training.training_loop import WeightAverage, build_optimizer, freeze, load_best, rate_factor


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
    make_trainer(data, tmp_path, config, source=FixedSource(good)).run()


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

    def watch(number) -> None:
        modes.append({name: part.training for name, part in trainer.model.named_children()})

    source = FixedSource(full_batch(tiny_model(), CAPTIONS), watch=watch)
    config = whole_config(settings(frozen=("change_head", "fusion_feed_forward"), epochs=2))
    trainer = make_trainer(data, tmp_path, config, source=source)
    trainer.run()
    frozen = {"change_head", "fusion_feed_forward"}
    assert all({name for name, training in mode.items() if not training} == frozen for mode in modes)
    assert len(modes) == 2


def test_gradients_are_clipped_to_the_norm_of_the_config(data, tmp_path) -> None:
    config = whole_config(settings(epochs=1, clip=0.01, bf16=False))
    trainer = make_trainer(data, tmp_path, config, source=FixedSource(full_batch(tiny_model(), CAPTIONS)))
    norms = []

    def measure(*_) -> None:
        gradients = [p.grad.norm() for p in trainer.model.parameters() if p.grad is not None]
        norms.append(torch.stack(gradients).norm().item())

    trainer.optimizer.register_step_pre_hook(measure)
    trainer.run()
    assert norms == pytest.approx([0.01], rel=1e-3)


def test_the_trunk_has_its_own_rate_and_all_parameters_are_given() -> None:
    model = tiny_model(text_encoder=TinyTextEncoder())
    optimizer = build_optimizer(model, settings(learning_rate=1e-3, backbone_rate=0.25, optimizer="adam"))
    assert type(optimizer) is torch.optim.Adam
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        assert rates[id(parameter)] == (2.5e-4 if name.startswith("backbone.") else 1e-3)


def test_the_average_forgets_its_start_quickly_and_the_later_weights_slowly() -> None:
    """The n-th step counts 9 / (n + 9) of the weights, and in the end 1 - decay of them."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    average, expected = WeightAverage(model, 0.5), 0.0
    for step in range(1, 20):
        torch.nn.init.constant_(model.weight, step)
        average.update(model)
        part = max(0.5, 9 / (step + 9))
        expected += part * (step - expected)
        assert average.shadow["weight"].item() == pytest.approx(expected)


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


@pytest.mark.parametrize(
    ("select", "scores"),
    [("cider", [1.0, 3.0, 2.0, math.nan, 3.0, 9.0]), ("perplexity", [9.0, 5.0, 7.0, math.nan, 5.0, 1.0])],
)
def test_the_best_epoch_is_kept_and_patience_ends_the_run(data, tmp_path, select, scores) -> None:
    """The lower perplexity is the better one."""
    kept = []

    def validate(model) -> dict[str, float]:
        kept.append(model.state_dict()["project.weight"].clone())
        return {select: scores[len(kept) - 1]}

    objective = "language" if select == "perplexity" else "likelihood"
    train = settings(epochs=20, patience=3, ema=0.0, select=select, objective=objective)
    result = make_trainer(data, tmp_path, whole_config(train), validate=validate).run()
    assert (result.best_epoch, result.best_scores) == (2, {select: scores[1]})
    assert torch.equal(load_file(result.weights)["project.weight"], kept[1])
    assert [line["best"] for line in log_of(tmp_path)] == [True, True, False, False, False]


def test_rates_warm_up_and_fall() -> None:
    factors = [rate_factor(step, warmup=4, total=20, final=0.1) for step in range(25)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[3:20] == sorted(factors[3:20], reverse=True)
    assert factors[12] == pytest.approx(0.55)
    assert factors[20:] == pytest.approx([0.1] * 5)
    assert rate_factor(0, warmup=0, total=1, final=0.1) == 1


@pytest.mark.parametrize(
    ("every", "expected"), [(1, [1, 1, 0.1, 0.1, 0.01, 0.01]), (2, [1, 1, 1, 1, 0.1, 0.1])]
)
@pytest.mark.slow
def test_the_papers_schedule_is_adam_with_steps_and_nothing_else(data, tmp_path, every, expected) -> None:
    train = TrainConfig(
        **{"schedule": "paper", "decay_epochs": every, "epochs": 3, "optimizer": "adam", "weight_decay": 0},
        **{"learning_rate": 1e-3, "backbone_rate": 1.0},
    )
    batch = full_batch(tiny_model(), CAPTIONS)
    config = whole_config(train)
    config = replace(config, model=replace(config.model, dropout=0.0))
    trainer = make_trainer(data, tmp_path, config, source=FixedSource(batch, batch))
    assert trainer.average is None
    plain = make_trainer(data, tmp_path, config, source=FixedSource(batch)).model.train()
    freeze(plain, train.frozen)
    rates, seen = [], []
    trainer.optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    trainer.optimizer.register_step_post_hook(lambda *_: seen.append(weights_of(trainer.model)))
    trainer.run()
    assert rates == pytest.approx([1e-3 * one for one in expected])
    # Adam of torch, float32, by hand.
    by_hand = torch.optim.Adam([p for p in plain.parameters() if p.requires_grad], lr=1e-3)
    for step in range(6):
        by_hand.param_groups[0]["lr"] = 1e-3 * expected[step]
        terms = plain.losses(batch, LOSS)
        by_hand.zero_grad()
        sum(LOSS[name] * value for name, value in terms.items()).backward()
        by_hand.step()
        if step == 0:
            norm = sum(p.grad.square().sum() for p in plain.parameters() if p.grad is not None) ** 0.5
            assert norm > TrainConfig.clip / 5
        for name, value in weights_of(plain).items():
            torch.testing.assert_close(seen[step][name], value, atol=1e-5, rtol=1e-3)


def weights_of(model) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}
