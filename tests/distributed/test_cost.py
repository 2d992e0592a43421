"""The model of cost: what it is fitted to, it gives back; overlap and its limits as by hand.

Input: links and buckets made up here. What is measured stands in reports/distributed-cost.txt (`make distributed`).
"""

import xml.etree.ElementTree

import pytest

from cutaway.distributed.cost import (
    CHOICES,
    Bucket,
    Link,
    best,
    buckets_of,
    fitted,
    hierarchical,
    limit,
    predict,
    ring,
)
from cutaway.distributed.cost_drawing import draw
from tests.distributed.programs_run import ROOT


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_link_is_found_from_its_rings(ranks):
    link = Link(3e-6, 5e9)
    found = fitted([(1 << k, ring(link, 1 << k, ranks)) for k in range(8, 26, 2)], ranks)
    assert found.latency == pytest.approx(3e-6) and found.bandwidth == pytest.approx(5e9)


def test_one_rank_sends_nothing():
    assert predict([Bucket(1 << 20, 0.1)], 0.3, 0.05, Link(1e-3, 1e6), 1).seconds == pytest.approx(0.35)
    assert all(cost(Link(1e-3, 1e6), 1 << 20, 1) == 0 for cost in CHOICES.values())


def test_a_quick_link_is_hidden_but_for_the_last_bucket():
    link, sizes = Link(0.0, 1e9), [1 << 20] * 4
    step = predict(buckets_of(sizes, 0.1, 0.2), 0.3, 0.0, link, 2)
    each = ring(link, 1 << 20, 2)
    assert step.seconds == pytest.approx(0.3 + each) and step.hidden == pytest.approx(0.75)
    assert step.computed == pytest.approx(0.3)
    assert [bar.start for bar in step.bars] == pytest.approx([0.15, 0.2, 0.25, 0.3])


def test_a_slow_link_sends_one_bucket_after_the_other():
    link = Link(0.0, 1e6)
    step = predict(buckets_of([1 << 20] * 3, 0.1, 0.2), 0.3, 0.0, link, 2)
    assert step.seconds == pytest.approx(0.1 + 0.2 / 3 + 3 * ring(link, 1 << 20, 2))


def test_a_processor_that_copies_hides_nothing():
    link = Link(0.0, 1e8, busy=1.0)
    step = predict(buckets_of([1 << 20] * 3, 0.1, 0.2), 0.3, 0.0, link, 2)
    assert step.hidden == pytest.approx(0) and step.seconds == pytest.approx(0.3 + step.moved)


def test_choices_and_limits_of_many_ranks():
    slow, inside = Link(2e-5, 1e10, local=8, inside=Link(3e-6, 3e11)), Link(3e-6, 3e11)
    assert hierarchical(slow, 1 << 26, 8) == pytest.approx(ring(inside, 1 << 26, 8))
    assert hierarchical(slow, 1 << 26, 64) < ring(slow, 1 << 26, 64)
    buckets = buckets_of([25 << 20] * 8, 0.02, 0.04)
    name, step = best(buckets, 0.06, 0.0, Link(2e-5, 1e10), 4096)
    assert name == "tree", "a ring of 4,096 waits for 8,190 messages"
    assert limit(buckets, Link(2e-5, 1e10), 4096, name, step, 0.06).startswith(("bandwidth", "nothing"))
    ring_step = predict(buckets, 0.06, 0.0, Link(2e-5, 1e10), 4096, "ring")
    assert limit(buckets, Link(2e-5, 1e10), 4096, "ring", ring_step, 0.06) == "latency"


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="two sizes or more"):
        fitted([(8, 1.0)], 2)


def example():
    """The guide's picture: 25 MB buckets on a link of 20 us and 6 GB/s."""
    link = Link(2e-5, 6e9)
    step = predict(buckets_of([1 << 20, *[25 << 20] * 5], 0.02, 0.04), 0.06, 0.004, link, 2)
    return draw(step, 0.02, 0.004, "A step on two ranks: each bucket travels while the backward goes on")


def test_the_guides_picture_is_todays():
    assert (ROOT / "site_docs/guides/step_on_two_ranks.svg").read_text() == example() + "\n"


def test_a_step_is_drawn_with_each_bucket():
    step = predict(buckets_of([1 << 20] * 3, 0.1, 0.2), 0.3, 0.02, Link(1e-4, 1e8), 2)
    drawn = xml.etree.ElementTree.fromstring(draw(step, 0.1, 0.02, "two < three"))
    titles = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "two < three" and sum("bucket" in t for t in titles) == 3
    assert any(t.startswith("optimizer") for t in titles)
