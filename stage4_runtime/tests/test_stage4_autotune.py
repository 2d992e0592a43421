"""Choices among configurations of a kernel, by a device whose times are given: no GPU is needed."""

import json
from dataclasses import replace

import pytest

from stage4_runtime.runtime import autotune, build, triton_units
from stage4_runtime.runtime.build import BUILDERS, Builder, at_hand, forget_built
from stage_contracts.device import Device
from stage_contracts.errors import BuildError
from stage_contracts.kernel import Kernel
from stage_contracts.program import Configuration, Program, Return, SourceUnit, Target

TEXT = """\
@triton.jit
def {name}(x, y, BLOCK: tl.constexpr):
    # model.py:{line}: x + 1
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)) + 1)
"""


def grid(block, warps=4):
    signature = {"x": "*fp32", "y": "*fp32"}
    return {
        "grid": (4096 // block, 1, 1),
        "num_warps": warps,
        "constants": {"BLOCK": block},
        "signature": signature,
    }


def unit(name="plus", line=1, blocks=(512, 2048), elements=4096):
    text = TEXT.format(name=name, line=line)
    target = Target("triton", Device("cuda"), "sm_90", {"max_autotune": True})
    made = SourceUnit(f"{name}_triton", "triton", text, (name,), target, {name: grid(1024)})
    others = tuple(Configuration(text, grid(block)) for block in blocks)
    return replace(made, alternatives=others, arguments=(("float32", elements), ("float32", elements)))


class Device_:
    """A device whose times are given by block; it counts how often it is asked."""

    def __init__(self, **times):
        self.times = {int(block.removeprefix("b")): time for block, time in times.items()}
        self.asked = []

    def __call__(self, of, kernels):
        self.asked.append([k and k.grid[0] for k in kernels])
        return [None if k is None else self.times[4096 // k.grid[0]] for k in kernels]


@pytest.fixture
def compiler(monkeypatch):
    """Triton's part: nothing is compiled, a kernel is its grid. `refused`: the blocks that it does not take."""
    made, refused = [], set()

    def make(of):
        (name,) = of.kernels
        block = of.grids[name]["constants"]["BLOCK"]
        made.append(block)
        if block in refused:
            raise BuildError("Triton refused it")
        facts = {
            "name": name, "shared": 0, "num_warps": of.grids[name]["num_warps"], "scratch": 0,
            "types": ["*fp32", "*fp32"],
        }  # fmt: skip
        return {f"{name}.cubin": b"cubin", f"{name}.ptx": b"", f"{name}.json": json.dumps(facts).encode()}

    monkeypatch.setitem(
        BUILDERS, "triton", Builder(triton_units.key, make, triton_units.load, triton_units.own)
    )
    monkeypatch.setattr(triton_units, "triton_version", lambda: "3.6.0")
    monkeypatch.setattr(autotune, "_DEVICE", [None, lambda of: "a GPU"])
    make.made, make.refused = made, refused
    return make


def on(monkeypatch, device):
    autotune.measure_with(device, lambda of: "a GPU")
    return device


def test_the_fastest_configuration_is_kept(compiler, monkeypatch, event_log):
    device = on(monkeypatch, Device_(b512=3.0, b1024=2.0, b2048=1.0))
    assert build(unit())["plus"].grid == (2, 1, 1)
    assert sorted(compiler.made) == [512, 1024, 2048]
    assert device.asked == [[4, 8, 2]], "the rule's first, all at once"
    (event,) = event_log("autotune")
    assert event.details["chosen"] == "BLOCK=2048 warps=4" and event.details["measured"]
    assert event.details["times"] == {
        "BLOCK=1024 warps=4": 2.0,
        "BLOCK=512 warps=4": 3.0,
        "BLOCK=2048 warps=4": 1.0,
    }


def test_a_second_process_measures_nothing_and_builds_one(compiler, monkeypatch, event_log):
    device = on(monkeypatch, Device_(b512=1.0, b1024=2.0, b2048=3.0))
    build(unit())
    forget_built()
    compiler.made.clear()
    assert at_hand([unit()]), "it is only loaded"
    assert build(unit())["plus"].grid == (8, 1, 1)
    assert len(device.asked) == 1 and not compiler.made
    told = event_log("autotune")[-1].details
    assert told["chosen"] == "BLOCK=512 warps=4" and not told["measured"]


def test_kernels_that_are_equal_up_to_names_are_measured_once(compiler, monkeypatch):
    device = on(monkeypatch, Device_(b512=1.0, b1024=2.0, b2048=3.0))
    assert build(unit("plus"))["plus"].grid == build(unit("more", line=7))["more"].grid == (8, 1, 1)
    assert len(device.asked) == 1
    build(unit("plus", elements=8192))
    build(unit("plus", blocks=(512,)))
    assert len(device.asked) == 3, "other sizes or other configurations are another question"


@pytest.mark.parametrize(
    "times, blocks",
    [
        ({"b512": 0.99, "b1024": 1.0, "b2048": 1.5}, 4),  # noise
        ({"b512": 0.9, "b1024": 1.0, "b2048": 1.5}, 8),
        ({"b512": None, "b1024": None, "b2048": 1.5}, 2),
        ({"b512": None, "b1024": None, "b2048": None}, 4),
    ],
)
def test_the_rule_stays_unless_another_gains(times, blocks, compiler, monkeypatch):
    on(monkeypatch, Device_(**times))
    assert build(unit())["plus"].grid == (blocks, 1, 1)


def test_a_configuration_that_triton_refuses_is_left_out(compiler, monkeypatch, event_log):
    device = on(monkeypatch, Device_(b512=1.0, b1024=2.0, b2048=0.5))
    compiler.refused.add(2048)
    assert build(unit())["plus"].grid == (8, 1, 1)
    assert device.asked == [[4, 8, None]]
    compiler.refused.add(1024)
    forget_built()
    with pytest.raises(BuildError, match="refused"):  # the rule's: a bug, which must be heard of
        build(unit(line=2, elements=1))


def test_a_program_has_the_configurations_that_were_chosen(compiler, monkeypatch):
    on(monkeypatch, Device_(b512=1.0, b1024=2.0, b2048=3.0))
    one = unit()
    kernel = Kernel("plus", (), ("x", "y"), unit=one.name, grid=one.grids["plus"])
    program = Program("f", Device("cuda"), (), {}, {"plus": kernel}, (Return(()),), units=(one,))
    build(one)
    chosen = autotune.chosen_program(program)
    assert chosen.units[0].grids["plus"] == chosen.kernels["plus"].grid == grid(512)
    assert not chosen.units[0].alternatives


def test_a_damaged_choice_is_measured_again(compiler, monkeypatch):
    device = on(monkeypatch, Device_(b512=1.0, b1024=2.0, b2048=3.0))
    build(unit())
    forget_built()
    monkeypatch.setattr(autotune.cache, "load", lambda key: {"choice.json": b'{"chosen": 9}'})
    assert autotune.known(unit()) is None
    assert len(device.asked) == 1
