"""What you found in the broken compiler: what is wrong in each of three programs, and a smallest program that shows it.

Input: the programs one.py, two.py and three.py, and what the tools say of them. The last body fixes one of the faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutaway
from stage2_autograd.core_calls import core_name
from stage2_autograd.decompose.rewriting import Call
from stage_contracts.graph import Node

F = cutaway.nn.functional


@dataclass(frozen=True)
class Found:
    """A claim about a program. The checks try it out.

    kind: "pass", "operator" or "fusion". name: the pass, as `bisect` calls it, or the operator whose value is wrong,
    such as "core.exp". line: the line of the program that `debug.verify` (for a pass: `autograd.verify_passes`) shows,
    without the spaces around it.
    """

    kind: str
    name: str
    line: str


# ---- what you write ----------------------------------------------------------------------------------------------


def one() -> Found:
    """What is wrong with program one."""
    # lab: begin one
    return Found("pass", "powers", "skewed = (-difference) ** 3 / 10")
    # lab: end


def witness_one(x: Any) -> Any:
    """At most 3 operators, of a tensor of shape (4, 6), that the fault of program one makes wrong."""
    # lab: begin witness_one
    return (-x) ** 3 + x
    # lab: end


def two() -> Found:
    """What is wrong with program two."""
    # lab: begin two
    return Found("operator", "core.erf", "features = F.gelu(F.linear(normed, hidden))")
    # lab: end


def witness_two(x: Any) -> Any:
    """At most 3 operators, of a tensor of shape (4, 6), that the fault of program two makes wrong."""
    # lab: begin witness_two
    return cutaway.erf(x)
    # lab: end


def three() -> Found:
    """What is wrong with program three."""
    # lab: begin three
    return Found("fusion", "core.tanh", "centred = bounded - bounded.mean(1, keepdim=True)")
    # lab: end


def witness_three(x: Any) -> Any:
    """At most 3 operators, of a tensor of shape (4, 6), that the fault of program three makes wrong."""
    # lab: begin witness_three
    bounded = x.tanh()
    return bounded, bounded.sum(1)
    # lab: end


def fixed(node: Node) -> Any:
    """The rule of the wrong pass, put right: what may take the place of this call, or None.

    It keeps every bit, and it still rewrites where that is right.
    """
    # lab: begin fixed
    x, n = node.args
    if core_name(x) != "neg" or not isinstance(n, int) or n % 2:
        return None
    return Call(node.target, x.args[0], n)
    # lab: end
