"""unittest.mock.patch.object on torch's configuration modules: in force in the block, and as before afterwards.

Input: every field by torch's names. Before the modules could delete a field, each of these tests failed: mock deletes
the field it patched, and the module had no such attribute.
"""

from unittest import mock

import pytest

from cutaway.debug.dynamo_fields import DYNAMO_KEPT, accepts
from cutaway.debug.torch_fields import FIELDS, FIXED, known
from cutaway.torch_api import modules
from stage_contracts import config

PATHS = tuple(FIELDS)
ALL = [(path, name) for path in PATHS for name in sorted(known(path)) if "*" not in name]


def holder(path, name):
    """(the module or the group such as config.triton, the field's name in it)."""
    found, *groups = modules()[path], *name.split(".")[:-1]
    for group in groups:
        found = getattr(found, group)
    return found, name.rpartition(".")[2]


@pytest.mark.parametrize("path, name", ALL, ids=lambda value: value.removeprefix("torch."))
def test_patch_object_restores(path, name):
    where, field = holder(path, name)
    before, ours = getattr(where, field), config.current()
    changes = isinstance(before, bool) and name not in FIXED[path]
    if path == "torch._dynamo.config" and name in DYNAMO_KEPT:
        changes &= accepts(name, not before)
    value = (not before) if changes else before
    with mock.patch.object(where, field, value):
        assert getattr(where, field) == value
    assert getattr(where, field) == before
    assert config.current() == ours


def test_a_patched_field_has_its_effect():
    where = modules()["torch._dynamo.config"]
    with mock.patch.object(where, "recompile_limit", 3):
        assert config.current().capture.recompile_limit == 3
    assert config.current().capture.recompile_limit == where.recompile_limit != 3


def test_a_deleted_field_is_missing_until_it_is_set():
    where = modules()["torch._dynamo.config"]
    before = where.recompile_limit
    del where.recompile_limit
    assert not hasattr(where, "recompile_limit")
    where.recompile_limit = before
    assert where.recompile_limit == before
    with pytest.raises(AttributeError, match="the nearest it has is"):
        del where.recompile_limits
