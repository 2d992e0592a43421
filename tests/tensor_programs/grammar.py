"""Random tensor programs: views, writes through them, casts, reductions, gradients, on inputs of every layout.

Input: a seed. `write_program(seed)` runs each statement as it is drawn, so that shapes fit where they can be made to;
about one program in twelve ends in a statement that eager rejects. A `<word>` is one of that word's forms.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cutaway.nn import functional as F

import cutaway

# ---- forms: one between two bars. T is a tensor, U another, D a dimension of T, N a number -------------------

FORMS = {
    "unary": """sin() | cos() | tanh() | sigmoid() | exp() | abs() | neg() | relu() | square() | abs().sqrt() | sign()
        clamp(-1, N) | clone() | contiguous() | pow(2) | round() | log1p().nan_to_num() | detach() | floor() | erf()
        double() | float() | half() | bfloat16() | to(torch.int64) | to(torch.float64) | softmax(D) | log_softmax(D)
        cumsum(D) | flip(D) | roll(1, D) | triu() | type_as(U) | sort(D).values | cumprod(D) | cummax(D).values | repeat(2, *[1] * T.ndim)
        repeat_interleave(2, D) | topk(1, D).values | reciprocal().clamp(-2, 2) | sgn() | logit(0.1) | flip(1, 0) | roll(-1, D)
        roll((1, -2), (1, 0)) | tril(-1) | clamp(max=N)""",
    "reduction": """sum() | mean() | sum(D) | mean(D, True) | amax(D) | var(D) | std() | logsumexp(D) | max(D).values
        prod(D) | norm() | min() | amin(D, True) | sum(D, True) | median() | argmax(D) | any() | max() | var() | sum((1, 0))
        amax((-1, 0)) | mean((1, 0), True) | var((1, 0), correction=0)""",
    "view": """transpose(0, D) | T | reshape(-1) | view(-1) | unsqueeze(D) | squeeze() | squeeze(D) | flatten() | mT
        diagonal() | diagonal(1) | unfold(D, 2, 1) | unfold(D, 2, 2) | select(D, 0) | select(D, -1) | narrow(D, 0, 1)
        narrow(D, 1, 1) | split(1, D)[0] | split(2, D)[-1] | chunk(2, D)[1] | unbind(D)[0] | expand(2, *T.shape) | real
        expand_as(U) | view_as(T) | movedim(0, D) | as_strided((2, 2), (2, 1)) | as_strided((2,), (2,), 1) | detach()
        permute(*reversed(range(T.ndim))) | unsqueeze(-1) | as_strided(T.shape, T.stride()) | swapaxes(0, -1)
        reshape(*T.shape, 1) | view(*T.shape) | unflatten(D, (1, -1)) | tensor_split(2, D)[0] | ravel() | t()
        reshape(1, -1) | expand(*T.shape) | to(T.dtype) | view(1, *T.shape) | broadcast_to((2, *T.shape)) | transpose(-1, 0)
        movedim((0, 1), (1, 0)) | narrow(-1, -1, 1) | diagonal(-1, 1, 0) | unsqueeze(-2) | select(-1, -2) | flatten(-2, -1)
        as_strided((2, 2), (1, 1)) | expand(*T.shape[:-1], -1) | unfold(-1, 2, 1)""",
    "index": """[0] | [-1] | [1:] | [:, 0] | [::2] | [..., None] | [..., -1] | [:, 1:] | [None] | [...] | [1:, ::2] | [:0]
        [[0, 0]] | [:, [1, 0]] | [torch.tensor([0, -1])] | [0, 0] | [[0], [1]] | [..., 1:2] | [:1] | [-2:] | [:-1] | [1:1]
        [..., ::3] | [None, ..., None, 0] | [-1:, ..., :-1]""",
    "taken": """T.gather(D, torch.zeros(T.shape, dtype=torch.int64)) | T.index_select(D, torch.tensor([0, 0]))
        T.take_along_dim(T.argsort(D), D) | T.masked_fill(T > 0, N) | T.index_add(D, torch.tensor([0]), T.narrow(D, 0, 1))
        T.scatter_add(D, T.argsort(D), T) | T.diagonal_scatter(T.diagonal() * N) | T.select_scatter(T.select(D, 0) * N, D, -1)
        T.slice_scatter(T.narrow(D, 0, 1), D, 1, 2) | T.index_put((torch.tensor([0, 0]),), T[0], True)
        T.scatter(D, T.argsort(D) // 2, T * N)""",
    "binary": """T + U | T - U | T * U | T / (U.abs() + 1) | torch.maximum(T, U) | torch.where(T > N, T, U) | T * N
        torch.cat([T, U]) | torch.stack([T, U]) | T @ U | T @ T.mT | torch.lerp(T, U, 0.25) | T.addcmul(U, U) | T + N
        torch.cat([T, T], D) | torch.stack([T, T], D) | torch.minimum(T, N * U) | T.matmul(U.mT) | T ** 2 | N - T | T % 2
        torch.where(T > 0, T, N) | torch.atan2(T, U) | torch.hypot(T, U) | torch.einsum('...i,...i->...', T, U)
        F.gelu(T) | F.softplus(T) | F.dropout(T, 0.5) | F.dropout(T, 0.5, False) | torch.rand_like(T) * T | T > U | T == U
        F.layer_norm(T, T.shape[-1:]) | F.mse_loss(T, U) | F.linear(T, U) | T.new_zeros(T.shape) + U | torch.zeros_like(T)
        torch.tensor(N) * T | torch.ones(2, 3, dtype=T.dtype) + T | F.pad(T, (1, 0)) | torch.outer(T.ravel(), U.ravel())
        F.pad(T, (1, -1)) | F.pad(T, (-1, 0), value=N) | F.pad(T, (0, -1, 1, -1)) | T.add(U, alpha=N) | T.sub(U, alpha=N)
        torch.cat([T, U], D) | torch.addmm(T, T, T.mT, beta=N, alpha=N) | torch.where(U > 0, U, T) | torch.stack([T, T[:1]])""",
    "written": """T.add_(U) | T.mul_(N) | T.mul_(U) | T.sub_(N) | T.tanh_() | T.sin_() | T.zero_() | T.fill_(N) | T += U
        T *= N | T.copy_(U) | T.copy_(U.mT) | T.masked_fill_(T > 0, N) | T.clamp_(-1, 1) | T.neg_() | T.abs_() | T -= T
        T.index_put_((torch.tensor([0, 0]),), U, accumulate=True) | T.index_put_((torch.tensor([0]),), T[-1:] * N)
        T.scatter_(D, torch.zeros(T.shape, dtype=torch.int64), N) | T.scatter_add_(D, T.argsort(D), T) | T.exp_() | T /= 2
        T.index_add_(D, torch.tensor([0]), T.narrow(D, 0, 1)) | T.index_fill_(D, torch.tensor([0]), N) | T.relu_()
        T[0] = N | T[:, 0] += N | T[0] = U | T[..., -1] *= U | T[1:] -= T[:-1] | T[:] = U | T[::2] = T[::2] * N
        T[T > 0] = N | T[..., None][0] += 1 | T.diagonal().add_(U) | T.diagonal().mul_(N) | T.mT.add_(N) | T[...] = U * T
        T.view(-1)[::2].mul_(N) | T.transpose(0, D).copy_(T) | T.reshape(-1)[0] = N | T.unbind(D)[0].mul_(N) | T[[0, 0]] += N
        T.split(1, D)[-1].add_(U) | T.narrow(D, 0, 1).zero_() | T.select(D, -1).sin_() | T.squeeze().mul_(U) | T.addcmul_(U, U)
        T.unfold(D, 2, 2).add_(N) | T.as_strided((2,), (2,)).fill_(N) | T.unsqueeze(0)[0].mul_(U) | T.expand(2, *T.shape).add_(N)
        T.detach().mul_(N) | T.flatten()[1:].neg_() | T.permute(*reversed(range(T.ndim)))[0].add_(N) | T.lerp_(U, N)
        F.relu(T, inplace=True) | F.dropout(T, 0.5, inplace=True) | T.sum(D).add_(U) | T.contiguous().add_(N) | T.to(T.dtype).mul_(N)
        T.unsqueeze_(0) | T.transpose_(0, D) | T.squeeze_() | T.t_() | T.data.mul_(N) | T.uniform_() | T.cumsum_(D) | T.pow_(2)
        T.squeeze_(D) | T.swapaxes_(0, -1) | T.unsqueeze_(-1) | T.as_strided_((2,), (1,)) | T.detach_() | T.requires_grad_()
        T.resize_(2, 2) | T.set_(U) | T.add_(U, alpha=N) | T.unfold(D, 2, 1)[..., 0].mul_(N) | T[-1:] = T[:1] | T.copy_(T.flip(0))
        T[:, -1] = N | T.mT[0].copy_(U) | T[1:1] = N | T.sub_(T.mean()) | T.copy_(T[:1]) | T.expand(*T.shape)[0].zero_()""",
    "gradient": """torch.autograd.grad((T * T).sum(), T)[0] | torch.autograd.grad(T.sin().sum(), T, create_graph=True)[0]
        torch.autograd.grad((T * U).sum(), [T, U], allow_unused=True)[0] | torch.autograd.grad(T.sum(), U, retain_graph=True)[0]
        torch.autograd.grad(T.pow(3).sum(), T, create_graph=True)[0]""",
    "N": "2 | 0.5 | -1 | 1.5 | 0 | 3",
    "D": "0 | 1 | -1",
}
FORMS = {word: [form.strip() for form in re.split(r"[|\n]", forms)] for word, forms in FORMS.items()}
# How often a statement is of each kind. A write is what most can go wrong with.
KINDS = {
    "unary": 4,
    "reduction": 2,
    "view": 6,
    "index": 3,
    "taken": 1,
    "binary": 5,
    "written": 8,
    "gradient": 0.25,
}
DTYPES = {"float64": 10, "float32": 5, "float16": 1, "bfloat16": 1, "int64": 1}
SHAPES = [(3, 4), (3, 4), (3, 3), (2, 3), (4,), (2, 3, 4), (3, 1), (), (0, 3), (1, 2, 2)]
# An input's memory: how it is seen of a fresh tensor that has more of everything.
LAYOUTS = {
    "{}": 6,
    "{}.mT": 1.5,
    "{}[..., 1:]": 1.5,
    "{}[1:]": 1,
    "{}[..., ::2]": 1,
    "{}.permute(*reversed(range({}.ndim)))": 0.5,
    "{}[:1].expand({}.shape)": 0.5,
    "{}.unsqueeze(0)[0]": 0.5,
    "{}[..., :1].expand({}.shape)": 0.3,
    "{}.unfold(-1, 2, 1)": 0.3,
    "{}[:0]": 0.2,
}
# What a statement, or up to three, stand under.
MODES = {"no_grad": 8, "enable_grad": 1, "inference_mode": 1, "set_grad_enabled(False)": 1}
ALIASES = [
    "{}",
    "{}.mT",
    "{}[1:]",
    "{}.reshape(-1)",
    "{}.detach()",
    "{}[..., :2]",
    "{}[..., 1:]",
    "{}.view_as({})",
]


def fresh(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Normal numbers, the same for the same seed."""
    data = np.random.default_rng(seed).normal(size=shape) * (3 if dtype == "int64" else 1)
    return cutaway.tensor(data).to(getattr(cutaway, dtype))


NAMES = {"torch": cutaway, "F": F, "fresh": fresh}


@dataclass(frozen=True)
class TensorProgram:
    """Its parts, each a tuple of lines, so that a smaller one is a program with a line less.

    inputs: how the leaves and arguments are made. arguments: those that the function gets.
    body, results: the function. after: what is done to its results, r[0] and on, before the backward.
    used: which results the loss reads. backwards: how many times. leaves: what requires grad.
    other: how the arguments of the second call are made, where they are not alike: another size, dtype, layout, ...
    """

    inputs: tuple[str, ...]
    arguments: tuple[str, ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    after: tuple[str, ...]
    used: tuple[int, ...]
    backwards: int
    other: tuple[str, ...] = ()

    def source(self) -> str:
        """Three functions: inputs(), program(...), after(r); other() where the second call's arguments differ."""
        body = [*self.body, f"return [{', '.join(self.results)}]"]
        return "\n".join(
            f"def {head}:\n" + "\n".join("    " + line for text in lines for line in text.split("\n")) + "\n"
            for head, lines in (
                ("inputs()", self.returned(self.inputs)),
                *([("other()", self.returned(self.other))] if self.other else []),
                (f"program({', '.join(self.arguments)})", body),
                ("after(r)", [*self.after, "return r"]),
            )
        )

    def returned(self, made: tuple[str, ...]) -> list[str]:
        """The lines that make the inputs, and return them with the leaves."""
        leaves = [n for line in made for n in re.findall(r"^(\w+) = .*requires_grad_\(\)$", line)]
        return [*made, f"return [{', '.join(self.arguments)}], [{', '.join(leaves)}]"]


def write_program(seed: int) -> TensorProgram:
    """The program of this seed."""
    with np.errstate(all="ignore"):
        return _Writer(random.Random(seed)).program()


class _Writer:
    """Draws statements, and keeps the values that they make, to know which statement fits next."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.names, self.body = rng, dict(NAMES), []
        self.count = 0
        self.rejects = rng.random() < 0.08

    def among(self, weights: dict[str, float]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def inputs(self) -> tuple[list[str], list[str]]:
        lines: list[str] = []
        arguments: list[str] = []
        shape, dtype = self.rng.choice(SHAPES), self.among(DTYPES)
        for i in range(self.rng.randint(1, 3)):
            name = "xyz"[i]
            if arguments and self.rng.random() < 0.2:
                made = self.rng.choice(ALIASES).replace("{}", self.rng.choice(arguments))
                new = [f"{name} = {made}"]
            else:
                new = self.fresh_input(name, shape, dtype, i)
            try:
                exec("\n".join(new), self.names)
            except (RuntimeError, IndexError, ValueError):
                new = [f"{name} = fresh(3, 4, seed={i})"]
                exec(new[0], self.names)
            lines += new
            arguments.append(name)
            if self.rng.random() < 0.4:
                shape = self.rng.choice(SHAPES)
            if self.rng.random() < 0.2:
                dtype = self.among(DTYPES)
        return lines, arguments

    def fresh_input(self, name: str, shape: tuple[int, ...], dtype: str, seed: int) -> list[str]:
        layout = self.among(LAYOUTS).replace("{}", "#")
        of = ", ".join(map(str, shape)) + ", " * bool(shape)
        made = f"fresh({of}seed={seed}, dtype='{dtype}')"
        grad = "" if dtype == "int64" or self.rng.random() < 0.3 else ".requires_grad_()"
        if grad and self.rng.random() < 0.6:  # in the middle of the user's tape
            return [
                f"leaf{seed} = {made}{grad}",
                f"whole{seed} = leaf{seed} * 1",
                f"{name} = {layout}".replace("#", f"whole{seed}"),
            ]
        if layout == "#":
            return [f"{name} = {made}{grad}"]
        return [f"whole{seed} = {made}", f"{name} = {layout}{grad}".replace("#", f"whole{seed}")]

    # ---- statements ----

    def tensors(self) -> list[str]:
        return [
            n
            for n, v in self.names.items()
            if isinstance(v, cutaway.Tensor) and re.fullmatch(r"[xyz]|v\d+", n)
        ]

    def form(self, kind: str) -> str:
        """A statement's text without the name it gives its value."""
        known = self.tensors()
        T = self.rng.choice(known[-4:] if self.rng.random() < 0.5 else known)
        text = self.rng.choice(FORMS[kind])
        text = (
            T + text if kind == "index" else f"T.{text}" if kind in ("unary", "reduction", "view") else text
        )
        text = re.sub(r"(?<![\w.'])T\b(?!\()", T, text)
        text = re.sub(r"\bN\b", lambda _: self.rng.choice(FORMS["N"]), text)
        text = re.sub(r"\bD\b", lambda _: self.rng.choice(FORMS["D"]), text)
        other = self.rng.choice(known)
        return re.sub(r"\bU\b", other, text)

    def statement(self) -> str:
        kind = self.among(KINDS)
        text = self.form(kind)
        if kind == "written":
            assigns = re.search(r" [-+*/]?= ", text)
            return text if assigns or self.rng.random() > 0.15 else f"{self.name()} = {text}"
        if self.rng.random() < 0.12:  # a name rebound instead of written
            return f"{self.rng.choice(self.tensors())} = {text}"
        return f"{self.name()} = {text}"

    def block(self) -> str:
        """One statement, or one to three under no_grad."""
        if self.rng.random() > 0.1:
            return self.statement()
        lines = []
        for _ in range(self.rng.randint(1, 3)):
            lines.append("    " + self.statement())
        mode = self.among(MODES)
        return f"with torch.{mode}{'' if mode.endswith(')') else '()'}:\n" + "\n".join(lines)

    def runs(self, text: str) -> bool:
        try:
            exec(text, self.names)
        except (
            RuntimeError,
            IndexError,
            ValueError,
            TypeError,
            NotImplementedError,
            AttributeError,
            NameError,
        ):
            return False
        values = [self.names[n] for n in self.tensors()]
        return all(v.numel() <= 400 and v.ndim <= 5 for v in values)

    def program(self) -> TensorProgram:
        inputs, arguments = self.inputs()
        start = {n: self.names[n] for n in arguments}
        length, tries = self.rng.randint(3, 15), 0
        while len(self.body) < length and tries < 80:
            tries += 1
            text, before = self.block(), dict(self.names)
            if self.runs(text):
                self.body.append(text)
            elif self.rejects and len(self.body) > 2:
                self.body.append(text)
                break
            else:
                self.names = before
                if not re.fullmatch(r"v\d+ = [^_]*", text):  # it may have written something before it failed
                    self.rewind(inputs, arguments)
        known = [
            n
            for n in self.tensors()
            if n in start or any(re.match(rf"(    )?{n} =", l) for t in self.body for l in t.split("\n"))
        ]
        late = known[-5:]
        results = [
            self.rng.choice(late if self.rng.random() < 0.7 else known) for _ in range(self.rng.randint(1, 4))
        ]
        after = [
            self.rng.choice(AFTER).replace("r[#]", f"r[{self.rng.randrange(len(results))}]")
            for _ in range(self.rng.choice((0, 0, 0, 1, 2)))
        ]
        if any(self.seen_without_tape(self.names[n]) for n in results):
            after = []  # torch refuses to write to a view made under no_grad; here it is written on the tape
        used = [i for i in range(len(results)) if self.rng.random() < 0.8]
        program = TensorProgram(
            tuple(inputs),
            tuple(arguments),
            tuple(self.body),
            tuple(results),
            tuple(after),
            tuple(used),
            self.rng.choice((1, 1, 2)),
        )
        return replace(program, other=self.other_inputs(program))

    def other_inputs(self, program: TensorProgram) -> tuple[str, ...]:
        """The arguments of the second call: half the time like the first's, else changed in one or two ways."""
        if self.rng.random() < 0.5:
            return ()
        lines = program.inputs
        for change in self.rng.sample(CHANGES, self.rng.choice((1, 1, 2))):
            lines = tuple(change(self.rng, line) for line in lines)
        names = dict(NAMES)
        try:
            exec(replace(program, other=lines).source(), names)
            names["program"](*names["other"]()[0])
        except Exception:  # a few calls may fail
            return (
                lines if self.rng.random() < 0.2 and "other" in names and runs_alone(names["other"]) else ()
            )
        return () if lines == program.inputs else lines

    def seen_without_tape(self, t: Any) -> bool:
        return t._base is not None and t._base.requires_grad and not t.requires_grad

    def rewind(self, inputs: list[str], arguments: list[str]) -> None:
        """The values as before the statement that failed."""
        self.names = dict(NAMES)
        for text in (*inputs, *self.body):
            exec(text, self.names)


def runs_alone(function: Any) -> bool:
    try:
        return bool(function())
    except Exception:
        return False


def _resized(rng: random.Random, line: str) -> str:
    return re.sub(r"fresh\(((?:\d+, )+)", lambda m: f"fresh({re.sub('3', '5', m[1])}", line)


def _grown(rng: random.Random, line: str) -> str:
    return re.sub(r"fresh\((\d+), ", lambda m: f"fresh({int(m[1]) + 2}, ", line)


def _ones(rng: random.Random, line: str) -> str:
    return re.sub(r"fresh\(\d+, ", "fresh(1, ", line)


def _emptied(rng: random.Random, line: str) -> str:
    return re.sub(r"fresh\(\d+, ", "fresh(0, ", line)


def _of_another_dtype(rng: random.Random, line: str) -> str:
    kinds = {"float64": "float32", "float32": "float64", "int64": "float64"}
    return re.sub(r"'(\w+)'", lambda m: f"'{kinds.get(m[1], m[1])}'", line)


def _laid_out_otherwise(rng: random.Random, line: str) -> str:
    turned = re.sub(r"(fresh)\((\d+), (\d+), (seed[^)]*\))", r"\1(\3, \2, \4.mT", line)
    return turned.replace(".mT.mT", "")


def _on_or_off_the_tape(rng: random.Random, line: str) -> str:
    if line.endswith(".requires_grad_()"):
        return line.removesuffix(".requires_grad_()")
    return line + ".requires_grad_()" if re.fullmatch(r"\w = fresh\([^)]*float[^)]*\)", line) else line


def _the_same_tensor(rng: random.Random, line: str) -> str:
    return re.sub(r"^([yz]) = (?=x|y|z|fresh|whole).*", r"\1 = x", line)


# What makes the second call another than the first: each takes a line that makes an input.
CHANGES = [
    _resized, _grown, _ones, _emptied, _of_another_dtype, _laid_out_otherwise, _on_or_off_the_tape, _the_same_tensor,
]  # fmt: skip

AFTER = [
    "r[#].mul_(2)",
    "r[#][0] += 1",
    "with torch.no_grad():\n    r[#].add_(1)",
    "r[#].detach().zero_()",
    "r[#] = r[#] * r[#]",
    "r[#] = r[#].reshape(-1)",
    "r[#].diagonal().add_(1)",
]
