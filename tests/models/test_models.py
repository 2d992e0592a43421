"""Four published-style model files on Cutaway, small: names, shapes, gradients, training, and torch where installed.

Input: tests/models. Gradients are held against differences of the loss itself in float64; `make models` compares the
full sizes with torch.
"""

import ast

import numpy as np
import pytest

import cutaway
from tests.models import compare
from tests.models.cases import HERE, TINY, load_file, tensors

CASES = {case.name: case for case in TINY}
NAMES = tuple(CASES)
LOGITS = {"gpt2": (3, 12, 31), "bert": (3, 12, 31), "unet": (2, 3, 8, 8), "resnet": (3, 7), "resnext": (3, 7)}


def made(name, dtype="float32"):
    """(module of the file, model, batch) on Cutaway."""
    case = CASES[name]
    cutaway.manual_seed(0)
    module = load_file(case.file, cutaways=True)
    model = case.build(module).to(getattr(cutaway, dtype))
    return module, model, tensors(cutaway, case.batch(np.random.default_rng(1)), dtype)


def loss_of(name, module, model, batch):
    return CASES[name].run(module, model, batch)[1]


@pytest.mark.parametrize("file", sorted({case.file for case in TINY}))
def test_a_model_file_imports_torch_and_python_only(file):
    tree = ast.parse((HERE / f"{file}.py").read_text())
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    allowed = {"torch", "torch.nn", "torch.nn.functional", "math", "inspect", "dataclasses", "typing"}
    assert {"torch", "torch.nn", "torch.nn.functional"} <= imported <= allowed


@pytest.mark.parametrize("name", NAMES)
def test_state_has_torchs_names_and_shapes(name):
    lines = (HERE / "state_dict.txt").read_text().splitlines()
    wanted = [line.split()[1:] for line in lines if line.split()[0] == name]
    got = [[key, *map(str, value.shape)] for key, value in made(name)[1].state_dict().items()]
    assert got == wanted and len(got) > 10


@pytest.mark.parametrize("name", NAMES)
def test_forward_and_its_gradient_along_three_directions(name):
    module, model, batch = made(name, "float64")
    logits, loss = CASES[name].run(module, model, batch)
    assert logits.shape == LOGITS[name] and logits.dtype is cutaway.float64 and loss.item() > 0
    loss.backward()
    parameters = list(model.parameters())
    assert all(p.grad is not None and p.grad.shape == p.shape for p in parameters)
    rng, h = np.random.default_rng(2), 1e-6
    for _ in range(3):
        directions = [d / np.linalg.norm(d) for d in (rng.standard_normal(p.shape) for p in parameters)]
        slope = sum(float(np.sum(p.grad.numpy() * d)) for p, d in zip(parameters, directions, strict=True))
        sides = []
        for sign in (1, -1):
            with cutaway.no_grad():
                for p, d in zip(parameters, directions, strict=True):
                    p.add_(cutaway.from_numpy(sign * h * d))
                sides.append(loss_of(name, module, model, batch).item())
                for p, d in zip(parameters, directions, strict=True):
                    p.sub_(cutaway.from_numpy(sign * h * d))
        assert (sides[0] - sides[1]) / (2 * h) == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_the_loss(name):
    module, model, batch = made(name)
    optimizer = cutaway.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = loss_of(name, module, model, batch)
        loss.backward()
        cutaway.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_weights_carries_the_model_over(name, tmp_path):
    module, model, batch = made(name)
    cutaway.save(model.state_dict(), tmp_path / "model.safetensors")
    cutaway.manual_seed(7)
    other = CASES[name].build(module)
    other.load_state_dict(cutaway.load(tmp_path / "model.safetensors"))
    with cutaway.no_grad():
        a, b = (CASES[name].run(module, m.eval(), batch)[0] for m in (model, other))
    assert a.tolist() == b.tolist()


# The small ResNets end by normalising three values a channel, which magnifies rounding: float32 is for `make models`.
COMPARED = [(n, d) for n in NAMES for d in compare.LIMITS if d == "float64" or CASES[n].file != "resnet"]


@pytest.mark.parametrize(("name", "dtype"), COMPARED)
def test_the_same_as_torch(name, dtype):
    torch = pytest.importorskip("torch")
    found, _, _ = compare.compare(CASES[name], torch, dtype)
    assert max(found[column] for column in compare.COLUMNS) <= compare.LIMITS[dtype], found


@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_a_compiled_training_step_is_eagers(name):
    found = []
    for compiled in (False, True):
        module, model, batch = made(name, "float64")
        called = cutaway.compile(model, fullgraph=True) if compiled else model
        loss = CASES[name].run(module, called, batch)[1]
        loss.backward()
        gradients = {key: p.grad.numpy() for key, p in model.named_parameters()}
        found.append((loss.item(), gradients, {key: b.numpy() for key, b in model.named_buffers()}))
    (loss, gradients, buffers), (other, others, moved) = found
    assert other == pytest.approx(loss, rel=1e-12)
    for key, wanted in {**gradients, **buffers}.items():
        assert compare.distance({**others, **moved}[key], wanted) < 1e-9, key


# ---- what one model has and the others have not --------------------------------------------------------------


def test_gpt2_decays_matrices_only_and_ties_its_output():
    _, model, _ = made("gpt2")
    groups = model.configure_optimizers(0.1, 1e-3, (0.9, 0.95)).param_groups
    assert [g["weight_decay"] for g in groups] == [0.1, 0.0]
    assert all(p.ndim >= 2 for p in groups[0]["params"]) and all(p.ndim < 2 for p in groups[1]["params"])
    assert model.lm_head.weight is model.transformer.wte.weight
    assert model.get_num_params() == sum(p.numel() for p in model.parameters()) - 16 * 16


def test_gpt2_generates_and_does_not_look_ahead():
    _, model, (tokens, _) = made("gpt2")
    model.eval()
    cutaway.manual_seed(3)
    longer = model.generate(tokens, 8, temperature=0.8, top_k=4)  # past the 16 positions it has
    assert longer.shape == (3, 20) and longer[:, :12].tolist() == tokens.tolist()
    assert longer.min().item() >= 0 and longer.max().item() < 31
    greedy = model.generate(tokens[:1], 3, top_k=1)
    wanted = tokens[:1]
    for _ in range(3):
        best = model(wanted)[0][:, -1].argmax(-1, keepdim=True)
        wanted = cutaway.cat((wanted, best), dim=1)
    assert greedy.tolist() == wanted.tolist()
    changed = tokens.clone()
    changed[:, 6:] = 0
    before, after = (model(t, t)[0][:, :6] for t in (tokens, changed))
    assert before.tolist() == after.tolist()


def test_bert_does_not_see_padding():
    _, model, (tokens, real, segments, _) = made("bert")
    model.eval()
    changed = cutaway.where(real > 0, tokens, 5)
    assert changed.tolist() != tokens.tolist()
    before, after = (model(t, real, segments).logits for t in (tokens, changed))
    kept = real > 0
    assert before[kept].tolist() == after[kept].tolist() and before.tolist() != after.tolist()
