"""The programs of the guide on backends, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: nothing from elsewhere. guide_page.py runs them.
"""

PROGRAMS = {
    "counting.py": """\
import cutaway

def counting(graph, example_inputs):
    names = [node.name for node in graph.graph.nodes if node.op == "call_function"]
    print(len(names), "operators:", ", ".join(names))
    return graph                          # a graph can be called

@cutaway.compile(backend=counting)
def f(x, w):
    return (x @ w).relu().sum()

print(f(cutaway.ones(2, 3), cutaway.ones(3, 4)))
""",
    "faster.py": """\
import operator

import cutaway
from cutaway.compiler import lookup_backend, register_backend

@register_backend
def squares(graph, example_inputs):
    for node in graph.graph.nodes:        # x ** 2 becomes x * x
        if node.target in (cutaway.pow, operator.pow) and node.args[1] == 2:
            with graph.graph.inserting_before(node):
                product = graph.graph.call_function(cutaway.mul, (node.args[0], node.args[0]))
            node.replace_all_uses_with(product)
            graph.graph.erase_node(node)
    graph.recompile()
    print(graph.code.strip())
    return lookup_backend("inductor")(graph, example_inputs)

@cutaway.compile(backend="squares")
def f(x):
    return (x ** 2).sum()

print(f(cutaway.arange(4.0)))
""",
}
SHOWN = {
    "counting": ("python counting.py", 10),
    "faster": ("python faster.py", 20),
}
