"""Bundles: the cache in one file, taken over only when it is trusted, entry by entry, damaged ones left out."""

import sys
import zipfile

import pytest

from stage4_runtime.runtime import build
from stage4_runtime.runtime.build import forget_built
from stage4_runtime.runtime.cache_bundle import load_cache, save_cache
from stage4_runtime.tests.programs import cpp_unit
from stage4_runtime.tests.test_stage4_build import run_sum
from stage_contracts import config


@pytest.fixture
def bundle(tmp_path):
    build(cpp_unit())
    assert save_cache(tmp_path / "bundle.zip") == 1
    return tmp_path / "bundle.zip"


@pytest.fixture
def elsewhere(tmp_path, bundle):
    """Another user's empty cache, with a secret of its own."""
    forget_built()
    with config.patch(cache_dir=str(tmp_path / "elsewhere")):
        yield


def test_what_was_built_here_is_a_hit_there(bundle, elsewhere, event_log):
    assert load_cache(bundle, trust=True) == 1
    run_sum(build(cpp_unit())["kernel0"])
    assert [event.name for event in event_log("cache")][-1] == "hit"
    assert load_cache(bundle, trust=True) == 0  # it is there


@pytest.mark.parametrize("trust", [False, 1, "yes", None])
def test_trust_is_said_in_words(bundle, elsewhere, trust):
    with pytest.raises(PermissionError, match="native code that will run as you; pass trust=True"):
        load_cache(bundle, trust=trust)


def test_a_file_that_is_no_bundle(tmp_path, elsewhere):
    (tmp_path / "text").write_text("not a zip")
    with pytest.raises(ValueError, match="is not a bundle of the cache"):
        load_cache(tmp_path / "text", trust=True)


def rewritten(bundle, change):
    """The bundle with the name and bytes of each member as `change` has them."""
    with zipfile.ZipFile(bundle) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    with zipfile.ZipFile(bundle, "w") as new:
        for member in members:
            new.writestr(*change(*member))


def test_a_changed_library_is_left_out(bundle, elsewhere, event_log):
    rewritten(bundle, lambda name, data: (name, data[:-1] + b"!" if name.endswith(".so") else data))
    assert load_cache(bundle, trust=True) == 0
    assert "is not what was stored" in event_log("cache")[-1].details["reason"]


def test_a_name_that_leads_out_of_the_folder(bundle, elsewhere, tmp_path):
    def out(name, data):
        return name.replace("kernels.so", "../../kernels.so"), data.replace(
            b"kernels.so", b"../../kernels.so"
        )

    rewritten(bundle, out)
    assert load_cache(bundle, trust=True) == 0
    assert not list(tmp_path.rglob("entries/kernels.so"))


def test_an_entry_of_another_machine_is_carried_but_never_used(bundle, elsewhere, event_log, monkeypatch):
    load_cache(bundle, trust=True)
    monkeypatch.setattr(sys.modules["stage4_runtime.runtime.build"], "cpu_identity", lambda: "another CPU")
    run_sum(build(cpp_unit())["kernel0"])
    assert [event.name for event in event_log("cache")][-1] == "miss"
