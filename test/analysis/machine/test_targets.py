"""The table of targets, and the target of a module."""

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from deplodock.analysis.machine.targets import BANK_BYTES, BANKS, NAMES, card_named, nvcc_arch, target, target_of
from deplodock.dialects.buffers import LINE_BYTES
from deplodock.errors import InvalidInputError


def test_default_architecture_is_an_h100():
    assert target("sm_90") == target("h100")
    assert target("sm_90").fact("sms") == 132
    assert target("sm_90").fact("shared_per_block") == 232448


def test_a_card_keeps_its_architecture():
    assert target("h200").arch.data == "sm_90"
    assert target("h200").fact("dram_gbps") > target("h100").fact("dram_gbps")


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_consistent(name: str):
    facts = target(name)
    assert 0 < facts.fact("shared_per_block") < facts.fact("shared_per_sm")
    assert facts.fact("threads_per_block") <= facts.fact("threads_per_sm")
    assert 10_000 < facts.fact("fp32_gflops") < 200_000
    assert nvcc_arch(facts.arch.data).startswith(facts.arch.data)


@pytest.mark.parametrize("name", NAMES)
def test_the_peak_is_that_of_the_lanes(name: str):
    facts = target(name)
    clock = facts.fact("fp32_gflops") / (2 * facts.fact("sms") * facts.fact("fp32_lanes"))
    assert 1.4 <= round(clock, 3) <= 2.6


def test_a_swizzled_line_is_one_word_of_each_bank():
    assert BANKS * BANK_BYTES == LINE_BYTES


def test_unknown_target_lists_the_names():
    with pytest.raises(InvalidInputError, match=r"unknown target 'sm_75'; choose one of sm_80, .*rtx5090"):
        target("sm_75")


def test_unknown_architecture():
    with pytest.raises(InvalidInputError, match="unknown architecture 'h100'"):
        nvcc_arch("h100")


def test_hopper_is_compiled_with_its_own_features():
    assert nvcc_arch("sm_90") == "sm_90a"


def test_target_of_a_module():
    assert target_of(ModuleOp([])) == target("sm_90")
    assert target_of(ModuleOp([], {"kernel.target": target("a100")})) == target("sm_80")


def test_target_attribute_of_another_kind():
    with pytest.raises(InvalidInputError, match=r"kernel\.target must be a #kernel\.target<sm_90, \.\.\.>, got"):
        target_of(ModuleOp([], {"kernel.target": StringAttr("sm_90")}))


@pytest.mark.parametrize(
    ("device", "arch", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "sm_90", "h100"),
        ("NVIDIA H200", "sm_90", "h200"),
        ("NVIDIA GeForce RTX 4090", "sm_89", "rtx4090"),
        ("NVIDIA L40S", "sm_89", "sm_89"),
        ("NVIDIA H100 80GB HBM3", "sm_80", "sm_80"),
    ],
)
def test_a_card_is_found_by_its_driver_name(device: str, arch: str, expected: str):
    assert card_named(device, arch) == expected
