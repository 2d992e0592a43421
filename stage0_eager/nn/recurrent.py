"""RNN, LSTM and GRU: cells, and layers of them over a sequence, with torch's arguments and parameter names.

Input: sequences (L, N, H_in), or (N, L, H_in) with batch_first, or (L, H_in). The loop over time is a Python loop.
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.amp.autocast import in_lower_precision
from stage0_eager.functions import creation, shape
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.module import Module, Parameter


def rnn_step(gates_in, gates_h, state, act):
    """One step of a plain RNN. gates_in and gates_h are the two projections, biases included."""
    h = act(gates_in + gates_h)
    return (h,)


def lstm_step(gates_in, gates_h, state, act=None):
    """Hochreiter and Schmidhuber 1997, gates in torch's order: input, forget, cell, output."""
    i, f, g, o = (gates_in + gates_h).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(gates_in, gates_h, state, act=None):
    """Cho et al. 2014, gates in torch's order: reset, update, new."""
    (r, z, n), (rh, zh, nh) = gates_in.chunk(3, -1), gates_h.chunk(3, -1)
    r, z = (r + rh).sigmoid(), (z + zh).sigmoid()
    n = (n + r * nh).tanh()
    return (n + z * (state[0] - n),)


_STEPS = {"RNN": (rnn_step, 1, 1), "LSTM": (lstm_step, 4, 2), "GRU": (gru_step, 3, 1)}  # step, gates, states


def _activation(nonlinearity: str) -> Any:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return F.tanh if nonlinearity == "tanh" else F.relu


class _Cell(Module):
    mode = "RNN"
    nonlinearity = "tanh"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = _STEPS[self.mode][1] * hidden_size
        where = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(creation.empty(rows, input_size, **where))
        self.weight_hh = Parameter(creation.empty(rows, hidden_size, **where))
        self.bias_ih = Parameter(creation.empty(rows, **where)) if bias else None
        self.bias_hh = Parameter(creation.empty(rows, **where)) if bias else None
        _uniform(self, hidden_size)

    def _next(self, input, state):
        if input.ndim not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.ndim}D instead"
            )
        step, _, states = _STEPS[self.mode]
        input, state = in_lower_precision(input), in_lower_precision(state)
        if state is None:
            zero = creation.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
            state = (zero,) * states
        gates_in = F.linear(input, self.weight_ih, self.bias_ih)
        gates_h = F.linear(state[0], self.weight_hh, self.bias_hh)
        return step(gates_in, gates_h, state, _activation(self.nonlinearity))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, device, dtype)
        _activation(nonlinearity)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        return self._next(input, None if hx is None else (hx,))[0]


class GRUCell(_Cell):
    """One step of a GRU: (N, H_in), (N, H) to (N, H)."""

    mode = "GRU"

    def forward(self, input, hx=None):
        return self._next(input, None if hx is None else (hx,))[0]


class LSTMCell(_Cell):
    """One step of an LSTM: (N, H_in) and (h, c) to (h, c)."""

    mode = "LSTM"

    def forward(self, input, hx=None):
        return self._next(input, hx)


def _uniform(module: Module, hidden_size: int) -> None:
    bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0.0
    for p in module.parameters():
        init.uniform_(p, -bound, bound)


class RNNBase(Module):
    """What RNN, LSTM and GRU share; mode is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU"."""

    nonlinearity = "tanh"

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if mode not in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU"):
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode, _, act = mode.partition("_")
        if act:
            self.nonlinearity = act.lower()
        if hidden_size <= 0 or num_layers <= 0:
            which = "hidden_size" if hidden_size <= 0 else "num_layers"
            raise ValueError(f"{which} must be greater than zero")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], got {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        rows, sides = _STEPS[self.mode][1] * hidden_size, 2 if bidirectional else 1
        where = {"device": device, "dtype": dtype}
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * sides
            for side in range(sides):
                name = _suffix(layer, side)
                setattr(self, f"weight_ih_{name}", Parameter(creation.empty(rows, width, **where)))
                setattr(self, f"weight_hh_{name}", Parameter(creation.empty(rows, hidden_size, **where)))
                if bias:
                    setattr(self, f"bias_ih_{name}", Parameter(creation.empty(rows, **where)))
                    setattr(self, f"bias_hh_{name}", Parameter(creation.empty(rows, **where)))
        _uniform(self, hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing: the weights are used where they are."""

    def _check(self, input) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"{self.mode}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def forward(self, input, hx=None):
        """(output (L, N, sides * H), final states (layers * sides, N, H)), laid out as the input is."""
        self._check(input)
        input, hx = in_lower_precision(input), in_lower_precision(hx)
        alone = input.ndim == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        states = self._states(x, hx, alone)
        sides = 2 if self.bidirectional else 1
        final: list[Any] = []
        for layer in range(self.num_layers):
            outs = []
            for side in range(sides):
                start = tuple(s[layer * sides + side] for s in states)
                out, last = self._run(x, start, _suffix(layer, side), backwards=side == 1)
                outs.append(out)
                final.append(last)
            x = outs[0] if sides == 1 else shape.cat(outs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        hidden = tuple(shape.stack(list(s)) for s in zip(*final, strict=True))
        if alone:
            x, hidden = x.squeeze(1), tuple(s.squeeze(1) for s in hidden)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, hidden if self.mode == "LSTM" else hidden[0]

    def _states(self, x, hx, alone):
        """The first states of every layer and side, (layers * sides, N, H) each."""
        rows = self.num_layers * (2 if self.bidirectional else 1)
        want = (rows, x.shape[1], self.hidden_size)
        if hx is None:
            return (creation.zeros(*want, dtype=x.dtype, device=x.device),) * _STEPS[self.mode][2]
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        states = tuple(s.unsqueeze(1) for s in states) if alone else states
        for s in states:
            if tuple(s.shape) != tuple(want):
                raise RuntimeError(f"Expected hidden size {want}, got {list(s.shape)}")
        return states

    def _run(self, x, state, name, backwards):
        """One layer in one direction: (outputs in order of time, final state)."""
        bias_ih, bias_hh = (getattr(self, f"bias_{k}_{name}") if self.bias else None for k in ("ih", "hh"))
        weight_hh, step = getattr(self, f"weight_hh_{name}"), _STEPS[self.mode][0]
        act = _activation(self.nonlinearity)
        gates_in = F.linear(x, getattr(self, f"weight_ih_{name}"), bias_ih)  # all steps in one product
        outs = []
        times = range(x.shape[0])
        for t in reversed(times) if backwards else times:
            state = step(gates_in[t], F.linear(state[0], weight_hh, bias_hh), state, act)
            outs.append(state[0])
        return shape.stack(outs[::-1] if backwards else outs), state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        return text + "".join(f", {k}=True" for k in ("batch_first", "bidirectional") if getattr(self, k))


def _suffix(layer: int, side: int) -> str:
    return f"l{layer}" + ("_reverse" if side else "")


class RNN(RNNBase):
    """Layers of plain recurrent steps; nonlinearity "tanh" or "relu"."""

    def __init__(
        self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, device=None, dtype=None,
    ):  # fmt: skip
        _activation(nonlinearity)
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, device, dtype,
        )  # fmt: skip


class LSTM(RNNBase):
    """Layers of LSTM steps; states are (h, c)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("LSTM", *args, **options)


class GRU(RNNBase):
    """Layers of GRU steps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("GRU", *args, **options)
