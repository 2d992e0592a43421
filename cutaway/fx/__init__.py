"""torch.fx: graphs of a program that can be read, edited, run and printed. `symbolic_trace(module)` makes one.

Input: a module or a function, run on proxies (tracer.py); or what capture recorded (captured.py). A graph here is our
Graph (stage_contracts/graph.py) with the two further kinds of nodes of torch.fx, call_module and call_method.
"""

from cutaway.fx.graph import Graph
from cutaway.fx.graph_module import GraphModule
from cutaway.fx.interpreter import Interpreter, Transformer
from cutaway.fx.node import Node, map_arg
from cutaway.fx.proxy import Proxy
from cutaway.fx.tracer import PH, Tracer, symbolic_trace, wrap

__all__ = [
    "PH", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "map_arg", "symbolic_trace",
    "wrap",
]  # fmt: skip
