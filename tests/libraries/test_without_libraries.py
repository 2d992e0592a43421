"""What libraries ask of torch when they are imported, without them: hub, jit, pytrees, stand-ins, metadata, constructors.

Input: small files and objects. The libraries themselves are run by `make libraries`.
"""

import importlib.metadata
import importlib.util
import io
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import cutaway
from cutaway.torch_api import as_torch
from stage0_eager.torch_archive_reading import FormatError

Pair = namedtuple("Pair", "a b")


@pytest.fixture
def torch():
    with as_torch() as module:
        yield module


def test_import_machinery_takes_it_for_torch(torch):
    assert importlib.util.find_spec("torch") is torch.__spec__
    assert importlib.util.find_spec("torch.nn.functional").name == "torch.nn.functional"
    assert importlib.metadata.version("torch") == torch.__version__ == "2.13.0+cutaway"


def test_modules_that_are_only_named(torch):
    from torch.ao.quantization import QuantStub
    from torch.distributed.tensor import DTensor, Shard

    assert not isinstance(cutaway.ones(1), DTensor) and Shard(0) == Shard(dim=0)

    class Mine(QuantStub):
        pass

    with pytest.raises(NotImplementedError, match=r"Cutaway has no torch\.ao\.quantization\.QuantStub"):
        QuantStub()
    with pytest.raises(AttributeError, match=r"no torch\.distributed\.tensor\.DTensor\.from_local"):
        DTensor.from_local  # noqa: B018
    with pytest.raises(OSError, match="do not run on Cutaway"):
        torch.ops.load_library("/somewhere/withops/_C.so")
    assert torch.library.register_fake("withops::f", len) is len, "nothing can call it"
    with pytest.raises(RuntimeError, match="operator other::f does not exist"):
        torch.library.register_fake("other::f", len)


def test_dtypes_and_devices_that_no_tensor_has(torch):
    assert torch.finfo(torch.float8_e4m3fn).max == 448
    with pytest.raises(TypeError, match="float8_e5m2 is not supported"):
        torch.zeros(2, dtype=torch.float8_e5m2)
    assert torch.ones(1).device != torch.device("meta") and torch.ones(1).layout == torch.strided
    with pytest.raises(RuntimeError, match="no tensor can be on the device 'mps'"):
        torch.zeros(2, device="mps")


def test_marks_for_torchscript_change_nothing(torch):
    @torch.jit.ignore(drop=True)
    def f(x: torch.jit.annotations.List[int]) -> int:
        return x

    assert f(3) == 3 and torch.jit.script(f) is f and torch.jit.annotate(int, 4) == 4


def test_legacy_constructors(torch):
    assert torch.FloatTensor(2, 3).shape == (2, 3) and torch.LongTensor([1, 2]).tolist() == [1, 2]
    assert isinstance(torch.ones(1), torch.FloatTensor) and not isinstance(torch.ones(1), torch.LongTensor)
    assert (torch.LongTensor | None) is not None


TREES = [
    3, [], {"a": [1, (2, 3)], "b": None}, OrderedDict(x=1), deque([1, [2]], maxlen=3), Pair(1, [2, 3]),
    defaultdict(list, {"k": [1]}), (1, [], {}, ()),
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_trees_come_back(tree, torch):
    pytree = torch.utils._pytree
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree) and spec.num_leaves == len(leaves)
    assert pytree.tree_structure(again) == spec
    assert pytree.tree_leaves(pytree.tree_map(lambda leaf: [leaf], tree)) == leaves


def test_a_registered_class_is_a_node(torch):
    pytree = torch.utils._pytree

    class Box:
        def __init__(self, inside):
            self.inside = inside

    assert pytree.tree_leaves([Box(1)])[0].inside == 1
    pytree.register_pytree_node(Box, lambda box: ([box.inside], None), lambda children, _: Box(*children))
    assert pytree.tree_leaves([Box([1, 2])]) == [1, 2]
    assert pytree.tree_map(lambda n: n + 1, Box(1)).inside == 2
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, None, None)
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_weights_come_from_the_cache(torch, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    url = "https://download.pytorch.org/models/resnet50-0676ba61.pth"
    with pytest.raises(
        FileNotFoundError, match=r"no weights resnet50-0676ba61\.pth in the folder .*checkpoints"
    ):
        torch.hub.load_state_dict_from_url(url)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save({"w": torch.ones(2)}, folder / "resnet50-0676ba61.pth")
    assert torch.hub.load_state_dict_from_url(url, progress=True)["w"].tolist() == [1, 1]
    (folder / "resnet50-0676ba61.pth").write_bytes(b"PK\3\4 and so on")
    with pytest.raises(FormatError, match="resnet50"):
        torch.hub.load_state_dict_from_url(url)


def test_a_model_from_a_local_folder(torch, tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "def tiny(n):\n    'Doc.'\n    import torch\n    return torch.nn.Linear(n, 1)\n"
    )
    folder = str(tmp_path)
    assert torch.hub.list(folder, source="local") == ["tiny"]
    assert torch.hub.help(folder, "tiny", source="local") == "Doc."
    assert torch.hub.load(folder, "tiny", 3, source="local").weight.shape == (1, 3)
    with pytest.raises(ValueError, match="no entry point 'tini'; the nearest it has is tiny"):
        torch.hub.load(folder, "tini", source="local")
    with pytest.raises(RuntimeError, match="Cutaway downloads nothing"):
        torch.hub.load("someone/something", "tiny")
    with pytest.raises(FileNotFoundError, match=r"no hubconf\.py"):
        torch.hub.load(str(tmp_path / "none"), "tiny", source="local")


def test_save_and_load_are_torchs_format(torch):
    file = io.BytesIO()
    torch.save({"x": torch.arange(3)}, file)
    assert file.getvalue()[:2] == b"PK"
    file.seek(0)
    assert torch.load(file, weights_only=True)["x"].tolist() == [0, 1, 2]


def test_buffers_and_fusion(torch):
    nn = torch.nn

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept, self.passing = nn.Buffer(torch.ones(2)), nn.Buffer(torch.zeros(1), persistent=False)

    holder = Holder()
    assert list(holder.state_dict()) == ["kept"] and len(list(holder.buffers())) == 2
    conv, norm = nn.Conv2d(2, 3, 3).eval(), nn.BatchNorm2d(3).eval()
    norm.running_mean.copy_(torch.randn(3)), norm.running_var.copy_(torch.rand(3) + 0.5)
    x = torch.randn(1, 2, 5, 5)
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    assert torch.allclose(fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-5)
    with pytest.raises(AssertionError, match="only for eval"):
        fuse_conv_bn_eval(conv, norm.train())


def test_cat_leaves_out_empty_ones_of_one_dimension(torch):
    """torch's old rule, by which caches begin: `torch.tensor([])` beside tensors of more dimensions gives its dtype."""

    def f(x):
        return torch.cat([torch.tensor([]), x], dim=-2)

    x = torch.ones(1, 2, 3, dtype=torch.int64)
    for call in (f, torch.compile(f), torch.compile(f, backend="eager", dynamic=True)):
        assert call(x).dtype is torch.float32 and call(x).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([torch.ones(1), x])
