"""The make targets that measure against torch, with the variables that make each one small."""

BESIDE_TORCH = {
    "call-overhead": "QUICK=1",
    "capture-coverage": "QUICK=1",
    "capture-time": "QUICK=1",
    "convolution": "QUICK=1",
    "cpu-speed": "SPEED_ARGS='--quick --rounds 1 --rows tiny --peers torch --parts \"1 thread\"'",
    "eager-speed": "QUICK=1",
    "language-model": "QUICK=1",
    "models": "QUICK=1",
    "operator-axes": "QUICK=1",
    "operator-speed": "QUICK=1",
    "names": "QUICK=1",
    "oracle": "QUICK=1",
    "saved-bytes": "QUICK=1",
    "training-step": "QUICK=1",
}
