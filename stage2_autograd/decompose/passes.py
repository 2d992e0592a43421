"""The passes of `decompose`: a table, and the order between them with reasons.

Input: a graph in operators of any kind. Timings, switches (`autograd.disabled_passes`), dumps (`autograd.dump_passes`)
and tests all use the name in the table. The order is checked at import.
"""

from __future__ import annotations

from stage2_autograd.decompose import (
    aligned_products,
    attention_again,
    attention_gradient,
    attention_layout,
    attention_scale,
    buckets,
    casts,
    constant_folding,
    identities,
    patterns,
    scatter_into,
    split_cat,
    views,
)
from stage2_autograd.decompose.common_subexpressions import common_subexpressions
from stage2_autograd.decompose.core_bodies import core_bodies
from stage_contracts.graph import Graph
from stage_contracts.passes import Pass, PassTable

PASSES: tuple[Pass, ...] = (
    Pass("attention", patterns.attention, "softmax(q k) v is marked"),
    Pass("core_bodies", core_bodies, "composites become their bodies", needed=True),
    Pass("common_subexpressions", common_subexpressions, "equal calls are computed once"),
    Pass(
        "attention_gradient",
        attention_gradient.attention_gradient,
        "attention's row sums add up over its result",
    ),
    Pass(
        "constant_folding",
        constant_folding.constant_folding,
        "arithmetic on constants is done now",
        rules=constant_folding.RULES,
    ),
    Pass("identities", identities.identities, "calls that change nothing go", rules=identities.RULES),
    Pass("casts", casts.casts, "a widening cast before another cast goes", rules=casts.RULES),
    Pass("views", views.views, "chains of views become one", rules=views.RULES),
    Pass("joins", split_cat.joins, "what was split and joined again is itself", rules=split_cat.RULES),
    Pass("buckets", buckets.buckets, "means of gradients travel together"),
    Pass(
        "attention_scale",
        attention_scale.attention_scale,
        "a GPU multiplies attention's scale after the product",
    ),
    Pass(
        "attention_layout",
        attention_layout.attention_layout,
        "a GPU writes attention's result as the next product reads it",
    ),
    Pass("attention_again", attention_again.attention_again, "a GPU's backward computes weights again"),
    Pass("scatter_into", scatter_into.scatter_into, "a GPU adds rows at places to what they are added to"),
    Pass("aligned_products", aligned_products.aligned_products, "a GPU multiplies rows of whole 16 bytes"),
    Pass("linear", patterns.linear, "products with bias and transposes are marked"),
    Pass("dead_code", Graph.eliminate_dead_code, "what nothing reads goes"),
)

# (earlier, later, why)
PASS_ORDER: tuple[tuple[str, str, str], ...] = (
    ("attention", "core_bodies", "softmax is one node only before it is opened"),
    ("core_bodies", "common_subexpressions", "what two composites both compute only shows in their bodies"),
    ("core_bodies", "constant_folding", "the constants of a body only show when it is open"),
    ("common_subexpressions", "joins", "the parts of one split must name one tensor"),
    ("constant_folding", "identities", "a folded constant may make an identity"),
    ("identities", "views", "a reshape that changes nothing would stand between two that are one"),
    ("common_subexpressions", "attention_gradient", "the values are one node in both directions only then"),
    ("attention_gradient", "views", "the turned values would be views of what the values are views of"),
    ("common_subexpressions", "attention_again", "the copies would become one with what they are copies of"),
    ("attention_gradient", "attention_again", "it finds the weights by the product with the values"),
    ("attention_scale", "attention_again", "the copies of the scores are scaled as they are"),
    ("attention_gradient", "attention_layout", "it finds the result by its product with the gradient"),
    ("views", "scatter_into", "a turned product is one node and its turn only then"),
    ("scatter_into", "aligned_products", "the product that is padded is the one that stays"),
    ("scatter_into", "dead_code", "what it replaced has lost its readers"),
    ("attention_scale", "dead_code", "what it replaced has lost its readers"),
    ("attention_layout", "dead_code", "what it replaced has lost its readers"),
    ("views", "attention_layout", "the turn and the reshape stand next to each other only then"),
    ("views", "aligned_products", "a matrix that is turned twice would be padded as it is not"),
    ("casts", "linear", "a cast that goes would stand between a product and its bias"),
    ("joins", "buckets", "a bucket is a join that stays"),
    ("views", "joins", "slices hide behind reads of what was written"),
    *((name, "dead_code", "what it replaced has lost its readers") for name in
      ("common_subexpressions", "constant_folding", "identities", "casts", "views", "joins", "attention_gradient")),
)  # fmt: skip

DECOMPOSE = PassTable("decompose", PASSES, PASS_ORDER)
