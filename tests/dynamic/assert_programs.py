"""Functions that assert something about the data: in a file of their own, because pytest rewrites the asserts of tests.

Input: a vector and a number in a tensor. Each asserts something of the number.
"""

from __future__ import annotations


def said(x, n):
    k = n.item()
    assert 0 <= k < 4, "out of range"
    return x[:k] + 1


def unsaid(x, n):
    assert n.item() >= 0
    return x * 2


def of_a_tensor(x, n):
    assert (n >= 0).all(), "negative"
    assert n < 4
    return x * 2


def computed(x, n):
    k = n.item()
    assert k >= 0, f"k is {k}"
    return x * k
