"""The short-time Fourier transform and its inverse: windows of a signal, each transformed.

Input: a signal (..., time) or its transform (..., frequency, frame). The inverse adds the windows up again and divides
by what the squares of the window add up to.
"""

from __future__ import annotations

from stage0_eager.derivatives.rules import into_windows
from stage0_eager.functions.fft import fft_fft, fft_ifft, fft_irfft, fft_rfft
from stage0_eager.functions.nn.padding import pad
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import is_traced, method
from stage_contracts import dtype as dt


def _window(name, x, n_fft, win_length, window):
    """The window in the middle of n_fft places; ones without one."""
    if not x.dtype.is_differentiable:
        raise RuntimeError(
            f"{name}: expected a tensor of floating point or complex values, got {x.dtype.name}"
        )
    real = dt.real_of(x.dtype)
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is None:
        window = c.full((win_length,), 1.0, real, x.device)
    if window.ndim != 1 or window.shape[0] != win_length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    return c.constant_pad(window, ((left, n_fft - win_length - left),), 0)


def _hop(name, n_fft, hop_length):
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    return hop


def _frames(signal, n_fft, hop, pad_mode):
    """(row, frame, place): windows of a signal or of several, filled up at both ends if there is a pad_mode."""
    rows = signal if signal.ndim == 2 else c.reshape(signal, (1, signal.shape[0]))
    if pad_mode is not None:
        rows = pad(rows, (n_fft // 2, n_fft // 2), mode=pad_mode)
    if not 0 < n_fft <= rows.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {rows.shape[-1]}, but got n_fft={n_fft}")
    return c.unfold(rows, 1, n_fft, hop)


@method
@operator
def stft(
    input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
    onesided=None, return_complex=None,
):  # fmt: skip
    """(..., frequency, frame): the transform of each window of n_fft places, hop_length apart (a fourth of n_fft)."""
    name, hop = "stft", _hop("stft", n_fft, hop_length)
    halved = not (input.dtype.is_complex or (window is not None and window.dtype.is_complex))
    if return_complex is None and halved:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected a 1D or 2D tensor, but got {input.ndim}D")
    if onesided and not halved:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    window = _window(name, input, n_fft, n_fft if win_length is None else win_length, window)
    frames = c.mul(_frames(input, n_fft, hop, pad_mode if center else None), window)
    onesided = halved if onesided is None else onesided
    out = (fft_rfft if onesided else fft_fft)(frames, norm="ortho" if normalized else None)
    out = c.permute(out, (0, 2, 1))
    out = out if input.ndim == 2 else c.reshape(out, out.shape[1:])
    return c.view_as_real(out) if return_complex is False else out


def _check_inverse(input, window, return_complex):
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if window is not None and window.dtype.is_complex and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")


def _added_up(frames, hop):
    """Frames (row, frame, place) added up where they lie over one another."""
    rows, count, places = frames.shape
    empty = c.full((rows, places + hop * (count - 1)), 0, frames.dtype, frames.device)
    return into_windows(empty, frames, 1, places, hop, c.scatter_add)


def _need_overlap(weight):
    """Refuse windows with a gap between them; while a graph is traced nothing is known of their values."""
    if not is_traced(weight) and weight.numel() and c.amin(c.abs(weight), (0, 1), False).item() < 1e-11:
        raise RuntimeError("istft(..., window) window overlap add min: 1: the windows leave gaps")


@method
@operator
def istft(
    input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
    length=None, return_complex=False,
):  # fmt: skip
    """The signal of which `input` is the stft; `length` cuts or fills its end."""
    hop = _hop("istft", n_fft, hop_length)
    _check_inverse(input, window, return_complex)
    window = _window("istft", input, n_fft, n_fft if win_length is None else win_length, window)
    whole = input if input.ndim == 3 else c.reshape(input, (1, *input.shape))
    onesided = whole.shape[1] != n_fft if onesided is None else onesided
    places = n_fft // 2 + 1 if onesided else n_fft
    if whole.shape[1] != places:
        raise RuntimeError(
            f"istft: expected {places} frequencies for n_fft={n_fft}, but got {whole.shape[1]}"
        )
    frames, norm = c.permute(whole, (0, 2, 1)), "ortho" if normalized else None
    if return_complex:
        frames = fft_ifft(frames, norm=norm)
    else:
        frames = fft_irfft(c.slice(frames, 2, 0, n_fft // 2 + 1, 1), n_fft, norm=norm)
    frames = c.mul(frames, window)
    signal, weight = (
        _added_up(frames, hop),
        _added_up(c.expand(c.mul(window, window), (1, *frames.shape[1:])), hop),
    )
    size = signal.shape[1]
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else size - start
    signal, weight = (c.slice(x, 1, start, min(end, size), 1) for x in (signal, weight))
    _need_overlap(weight)
    out = c.div(signal, weight)
    if end > size:
        out = c.constant_pad(out, ((0, 0), (0, end - size)), 0)
    return out if input.ndim == 3 else c.reshape(out, out.shape[1:])
