"""Where bfloat16 and 8-bit integers are computed: only where the processor gains by them."""

import pytest
import torch

from rscc.devices import fast_bf16, fast_int8, pick_device
from rscc.errors import DeviceUnavailable


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


@pytest.mark.parametrize(
    ("instructions", "fast"),
    [({"avx512_vnni"}, True), ({"avx_vnni"}, True), ({"amx_int8"}, True), ({"avx2", "avx512_bf16"}, False)],
)
def test_integers_are_taken_where_the_processor_sums_their_products(monkeypatch, instructions, fast):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(instructions, True))
    assert fast_int8(torch.device("cpu")) is fast


def test_a_gpu_that_is_not_there_is_refused_also_where_none_is_held(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert pick_device("cuda:0", hold=False).type == "cuda"
    for name in ("cuda:1", "cuda:7"):
        with pytest.raises(DeviceUnavailable, match=name):
            pick_device(name, hold=False)
