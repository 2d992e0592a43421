"""The digits the tour trains on: what they are, how they are split, what happens when the file is not itself.

Input: cutaway/tour/digits.py and its data file. The compiler is not needed.
"""

import hashlib

import numpy as np
import pytest

from cutaway.tour import digits


@pytest.fixture(scope="module")
def data():
    return digits.load_digits()


def test_shapes_types_and_ranges(data):
    images, labels = data
    assert (images.shape, images.dtype) == ((1797, 64), np.uint8)
    assert (labels.shape, labels.dtype) == ((1797,), np.int64)
    assert (images.min(), images.max()) == (0, 16)


def test_known_facts_of_the_set(data):
    """Counts per digit and the grey total, taken from scikit-learn's copy: the conversion lost nothing."""
    images, labels = data
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert int(images.sum()) == 561718
    assert images[0].reshape(8, 8)[0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]


def test_split_is_a_stratified_partition(data):
    images, labels = data
    train_images, train_labels, held_images, held_labels = digits.split(images, labels)
    assert (len(train_labels), len(held_labels)) == (1437, 360)
    assert (train_images.shape, held_images.shape) == ((1437, 64), (360, 64))
    shares = np.bincount(held_labels) - np.bincount(labels) * 360 / 1797
    assert np.abs(shares).max() < 1
    together = np.concatenate([train_images, held_images])
    assert sorted(map(bytes, together)) == sorted(map(bytes, images))


def test_split_is_the_same_every_time_and_follows_the_seed(data):
    images, labels = data
    first, second, other = (
        digits.split(images, labels),
        digits.split(images, labels),
        digits.split(images, labels, seed=1),
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[2], other[2])
    # Frozen: a published accuracy is only comparable on the same held-out digits.
    assert hashlib.sha256(first[2].tobytes()).hexdigest().startswith("1b67ee694ed7567d")


@pytest.mark.parametrize("held_out", [0, -1, 1797, 5000])
def test_split_refuses_an_empty_part(data, held_out):
    with pytest.raises(ValueError, match="expected 1 to 1796"):
        digits.split(*data, held_out=held_out)


def test_split_refuses_unequal_lengths(data):
    images, labels = data
    with pytest.raises(ValueError, match="1797 images and 5 labels"):
        digits.split(images, labels[:5])


def test_missing_file_says_where_and_what_to_do(tmp_path):
    with pytest.raises(digits.DigitsError, match=r"nowhere.*Install cutaway again"):
        digits.load_digits(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b.replace(b"g", b"f", 1), lambda b: b""])
def test_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "digits.txt"
    path.write_bytes(damage(digits.DATA_FILE.read_bytes()))
    with pytest.raises(digits.DigitsError, match=r"damaged: \d+ bytes.*Restore the file"):
        digits.load_digits(path)
