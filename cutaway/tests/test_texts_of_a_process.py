"""What is compiled for other objects of the same program is the same text: a second process finds its code."""

import cutaway
from stage_contracts import generated_code


def _texts_of_a_step(monkeypatch) -> list[str]:
    """The Python texts that a compiled step of AdamW comes to, over parameters of its own."""
    texts = []
    monkeypatch.setattr(generated_code, "LONG", 0)
    monkeypatch.setattr(generated_code, "_KEEPER", [lambda text, make: texts.append(text) or make()])
    parameters = [cutaway.nn.Parameter(cutaway.ones(3, k + 1)) for k in range(3)]
    for parameter in parameters:
        parameter.grad = cutaway.ones_like(parameter)
    optimizer = cutaway.optim.AdamW(parameters, lr=1e-3)
    for _ in range(2):  # the second runs what was made for the first
        cutaway.compile(optimizer.step, backend="eager", fullgraph=True)()
    assert all(float(p.sum()) < p.numel() for p in parameters)
    return texts


def test_no_text_has_a_number_of_the_register(monkeypatch) -> None:
    first, second = _texts_of_a_step(monkeypatch), _texts_of_a_step(monkeypatch)
    assert first == second and any("state" in text for text in first)
    assert any("__registered_0" in text for text in first)


SCALES = {"registered(5)": 2.0}


def test_a_key_that_reads_as_a_number_of_the_register_stays() -> None:
    def scaled(x):
        return x * SCALES["registered(5)"]

    compiled = cutaway.compile(scaled, backend="eager", fullgraph=True)
    x = cutaway.ones(3)
    assert compiled(x).tolist() == [2, 2, 2] and compiled.has_entry(x)
