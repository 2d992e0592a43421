"""The words of the field, each in one sentence: the page Glossary, and what a page shows when you point at a word.

Input: TERMS. `glossary_page()` is the page; `abbreviations()` is what Markdown's extension `abbr` reads on every page.
"""

TERMS = {
    "AOT": "Ahead of time: the backward graph is made when a function is compiled, not when backward() is called.",
    "artifact": "What one step of the compiler made: a graph, guards, loops, a program, source code.",
    "backward": "The pass that computes gradients, from the result back to the inputs.",
    "broadcasting": "Repeating sizes 1 and missing dimensions, so that two shapes fit.",
    "bytecode": "The instructions that Python compiles a function to, for a machine with a stack.",
    "capture": "Reading a function's bytecode to learn which operators it calls, without running it.",
    "closure": "A function together with the variables of the function around it.",
    "decomposition": "An operator written with simpler operators.",
    "dispatch": "Choosing, at a call, the compiled version whose guards hold.",
    "eager": "Running each operator at once, as it is called; the opposite of compiled.",
    "forward": "The pass that computes the result.",
    "frame": "One call of a Python function: its code, its locals, its stack.",
    "functionalization": "Rewriting a graph without writes: what was written to becomes a new value.",
    "fusion": "Making one loop of several, so that a value is not stored and loaded in between.",
    "graph break": "A place where capture stops, because it cannot know what Python will do; Python runs that part.",
    "guard": "A fact that compiled code relies on, checked at each call.",
    "joint graph": "One graph that computes results and gradients together.",
    "kernel": "One generated function: loops that read and write memory.",
    "leaf": "A tensor that you made yourself: no operator computed it.",
    "loop nest": "A computation as loops inside each other, with a body of simple instructions.",
    "lowering": "Turning operators into loops.",
    "meta": "What is known of a tensor without its numbers: shape, dtype, strides, device, whether it requires grad.",
    "operator": "A function on tensors with a row in the table: how to compute it, its meta rule, its derivative.",
    "oracle": "An implementation that is taken to be right, with which results are compared.",
    "partition": "Cutting a joint graph into a forward and a backward, and choosing what the one saves for the other.",
    "pass": "One step that changes an artifact: it has a name, is timed, and can be switched off.",
    "primal": "An input of the function that is differentiated.",
    "reduction": "A computation that makes one number of many: a sum, a maximum.",
    "residual code": "The code that runs in place of yours: it calls the graph and does what the graph left out.",
    "resume function": "The rest of a function after a graph break, as a function of its own.",
    "seam": "A function of the compiler that you can replace: it has a contract, and tests that run on your version.",
    "stride": "How many elements lie between two neighbours along a dimension.",
    "tangent": "The gradient that arrives at a result from whatever comes after it.",
    "tape": "The record of the operators that ran, which the backward pass walks over.",
    "tiny": "A stage's version on one screen, which shows its idea on a restricted language.",
    "view": "A tensor that shows the memory of another one under another shape, without a copy.",
}


def glossary_page():
    rows = [
        f"**{term}**\n:   {meaning}\n" for term, meaning in sorted(TERMS.items(), key=lambda t: t[0].lower())
    ]
    above = "The words of this site, each in one sentence. On the other pages, point at a word with dots under it."
    return "# Glossary\n\n" + above + "\n\n" + "\n".join(rows)


def abbreviations():
    return "\n".join(f"*[{term}]: {meaning}" for term, meaning in TERMS.items())
