"""Where bfloat16 is computed: only where the processor gains by it."""

import pytest
import torch

from rscc.devices import fast_bf16


@pytest.mark.parametrize(
    ("name", "instructions", "fast"),
    [
        ("Intel Xeon", {"avx512_bf16", "amx_bf16"}, True),
        ("Intel Xeon", {"avx512_bf16"}, False),
        ("AMD EPYC", {"avx512_bf16"}, True),
        ("AMD EPYC", set(), False),
    ],
)
def test_bfloat16_is_taken_where_the_processor_gains_by_it(monkeypatch, name, instructions, fast):
    capabilities = {"cpu_name": name, **{word: word in instructions for word in ("avx512_bf16", "amx_bf16")}}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert fast_bf16(torch.device("cpu")) is fast


def test_no_other_device_is_asked_for_the_processors_instructions(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: pytest.fail("asked"))
    assert fast_bf16(torch.device("mps")) is False
