"""Python's `random` inside compiled functions: the numbers and the generator's state are those of eager.

Input: whole programs and two backends. Stage 1's own tests have a row for each name of the module.
"""

import random

import pytest

import cutaway


def in_arithmetic(x):
    k = random.randint(1, 6)
    return x * random.random() + k, random.uniform(0, k * 1.0), [k]


def seeded(x):
    random.seed(4)
    return x * random.gauss(0, 1), random.random()


def branching(x):
    if random.random() < 0.5:
        return x + 1
    return x * random.random()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [in_arithmetic, seeded, branching])
def test_the_numbers_are_those_of_eager(program, backend):
    compiled, x = cutaway.compile(program, backend=backend), cutaway.ones(3)
    found = []
    for function in (program, compiled):
        random.seed(1)
        found.append((str([function(x) for _ in range(5)]), random.getstate()))
    assert found[0] == found[1]


def test_a_number_that_is_drawn_is_an_input_and_no_reason_to_compile_again():
    compiled, x = cutaway.compile(in_arithmetic, backend="eager", fullgraph=True), cutaway.ones(3)
    random.seed(1)
    values = {str(compiled(x)) for _ in range(20)}
    assert len(values) == 20
    assert cutaway.explain(in_arithmetic)(x).graph_count == 1
