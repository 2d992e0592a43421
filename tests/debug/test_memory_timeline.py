"""Memory over time: each call holds what was predicted, what is freed goes down again, and the picture says the lines.

Input: training steps whose plans are known, and Python's own count of NumPy's memory as the oracle.
"""

import gc
import gzip
import json
import tracemalloc
from xml.etree import ElementTree

import pytest

import cutaway
from cutaway import nn, profiler
from cutaway.profiler.memory_timeline import timeline

N = 256


def several(x, w):
    y = (x @ w).relu()
    return ((y @ w).sin() @ w).sum(0)


def recorded(function, *inputs, backward=False, calls=1):
    compiled = cutaway.compile(function)

    def step():
        out = compiled(*inputs)
        if backward:
            out.sum().backward()

    step()
    with profiler.profile(profile_memory=True) as prof:
        for _ in range(calls):
            step()
        gc.collect()
    return prof


@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("backward", [False, True])
def test_a_call_holds_what_was_predicted(backward, calls):
    inputs = [cutaway.randn(N, N), cutaway.randn(N, N, requires_grad=backward)]
    found = timeline(recorded(several, *inputs, backward=backward, calls=calls).events())
    assert len(found["calls"]) == calls * (1 + backward)
    for call in found["calls"]:
        assert call["predicted"] > N * N * 4
        assert call["measured"] == pytest.approx(call["predicted"], abs=4096), call


def test_what_is_measured_is_what_numpy_took():
    compiled, x = cutaway.compile(several), cutaway.randn(N, N)
    compiled(x, x)
    with profiler.profile(profile_memory=True) as prof:
        tracemalloc.start()
        try:
            compiled(x, x)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert timeline(prof.events())["peak"] == pytest.approx(taken, abs=0.02 * taken + 16384)


def test_what_is_dropped_is_freed():
    compiled, x = cutaway.compile(lambda x: x * 2), cutaway.ones(N, N)
    compiled(x)
    with profiler.profile(profile_memory=True) as prof:
        for _ in range(3):
            compiled(x)
        kept = compiled(x)
    found = timeline(prof.events())
    assert found["peak"] < 2.5 * kept.nbytes  # not four results
    assert found["measured"][-1][1] == kept.nbytes
    (row,) = found["largest"]
    assert (row["times"], row["held"]) == (4, 1)


def test_the_largest_has_its_line_and_the_files_are_well_formed(tmp_path):
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 4))
    prof = recorded(lambda x: model(x), cutaway.randn(128, 64), backward=True)
    for name in ("m.svg", "m.json", "m.json.gz"):
        prof.export_memory_timeline(tmp_path / name)
    found = json.loads((tmp_path / "m.json").read_text())
    assert found == json.loads(gzip.decompress((tmp_path / "m.json.gz").read_bytes()))
    assert found["largest"][0]["bytes"] >= 128 * 512 * 4
    assert any("test_memory_timeline.py" in line for row in found["largest"] for line in row["lines"])
    drawn = ElementTree.parse(tmp_path / "m.svg").getroot()
    kinds = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    assert kinds.count("polygon") == 1 and kinds.count("line") == len(found["calls"]) == 2
    assert "predicted" in (tmp_path / "m.svg").read_text()


def test_what_cannot_be_written_is_said(tmp_path):
    with profiler.profile() as without:
        pass
    with pytest.raises(RuntimeError, match="profile_memory=True"):
        without.export_memory_timeline(tmp_path / "m.svg")
    with profiler.profile(profile_memory=True) as prof:
        pass
    with pytest.raises(ValueError, match=r"\.svg, \.json or \.json\.gz"):
        prof.export_memory_timeline(tmp_path / "m.html")
    with pytest.raises(ValueError, match="the CPU only"):
        prof.export_memory_timeline(tmp_path / "m.svg", device="cuda:0")
    prof.export_memory_timeline(tmp_path / "empty.svg")
