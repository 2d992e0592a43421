"""Buckets of gradients: their order, their sizes, one dtype each, a small one at either end.

Input: made-up parameters of drawn sizes. No process is started.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cutaway.distributed.buckets import BYTES, SMALL_BYTES, in_buckets


class Parameter(NamedTuple):
    number: int
    size: int
    dtype: str

    def numel(self) -> int:
        return self.size

    def element_size(self) -> int:
        return 4 if self.dtype == "float32" else 2


def of(*sizes: int, dtype: str = "float32") -> list[Parameter]:
    return [Parameter(number, size, dtype) for number, size in enumerate(sizes)]


def nbytes(bucket: list[Parameter]) -> int:
    return sum(one.numel() * one.element_size() for one in bucket)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["float32", "bfloat16"])), max_size=30),
    st.integers(0, 120),
    st.integers(0, 120),
)
def test_buckets_keep_order_dtype_and_limits(drawn, limit, small):
    small = min(small, limit)
    parameters = [Parameter(number, size, dtype) for number, (size, dtype) in enumerate(drawn)]
    buckets = in_buckets(parameters, limit, small)
    assert [one for bucket in buckets for one in bucket] == parameters[::-1]
    for bucket in buckets:
        assert len({one.dtype for one in bucket}) == 1
        assert nbytes(bucket) <= limit or len(bucket) == 1
    ends_in_a_larger_one = parameters and nbytes(parameters[:1]) > small
    assert not buckets or ends_in_a_larger_one or nbytes(buckets[-1]) <= small


def test_the_last_bucket_is_small_so_that_little_waits_for_the_end():
    sizes = [1000, 200_000, *[1 << 20] * 20, 5000]
    assert [nbytes(bucket) for bucket in in_buckets(of(*sizes))] == [20_000, *[6 << 22] * 3, 2 << 22, 804_000]
    assert SMALL_BYTES < 25 << 20 == BYTES


def test_a_large_first_parameter_is_not_cut():
    assert [len(bucket) for bucket in in_buckets(of(10 << 20, 10, 10))] == [2, 1]
