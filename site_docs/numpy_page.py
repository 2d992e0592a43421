"""The tables of the page on NumPy programs, made of the tables that the code runs by.

Input: stage0_eager.numpy_api. hooks.py puts each in the place of its mark in numpy.md.
"""

from stage0_eager.numpy_api import ROWS, promotion


def _table(rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _numpy_promotion():
    """What two arrays become under NEP 50, as a Markdown table."""
    names = [d.name for d in promotion.ARRAY_DTYPES]
    rows = [["", *(f"`{name}`" for name in names)], ["---"] * (len(names) + 1)]
    for a in promotion.ARRAY_DTYPES:
        rows.append([f"**`{a.name}`**", *(promotion.promote(a, b).name for b in promotion.ARRAY_DTYPES)])
    return _table(rows)


def _numpy_rules():
    """The sentences of the promotion table, each with its example."""
    rows = [["rule", "example", "result"], ["---"] * 3]
    return _table(rows + [[rule, f"`{example}`", f"`{result}`"] for rule, example, result in promotion.RULES])


def _numpy_functions():
    """The functions that are captured, a row per file of the package."""
    by_file = {}
    for name, row in ROWS.items():
        by_file.setdefault(row.op.body.__globals__["__name__"].split(".")[-1], []).append(f"`{name}`")
    rows = [["family", "functions of `np`"], ["---"] * 2]
    methods = sorted(name for name, row in ROWS.items() if row.method)
    return (
        _table(rows + [[family, " ".join(names)] for family, names in by_file.items()])
        + "\n\nMethods of arrays: "
        + " ".join(
            f"`{name}`" for name in [*methods, "astype", "fill", "flatten", "sort", "argsort", "transpose"]
        )
        + ". Attributes: `T` `mT` `real` `shape` `ndim` `size` `dtype` `itemsize` `nbytes`."
    )


TABLES = {
    "<!-- numpy promotion table -->": _numpy_promotion,
    "<!-- numpy promotion rules -->": _numpy_rules,
    "<!-- numpy functions -->": _numpy_functions,
    "<!-- numpy dtypes -->": lambda: ", ".join(f"`{d.name}`" for d in promotion.ARRAY_DTYPES),
    "<!-- numpy floats -->": lambda: ", ".join(
        f"`{a.name}` in `{b.name}`" for a, b in promotion.FLOAT_FOR.items() if a.category < 2
    ),
}
