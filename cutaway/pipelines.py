"""The two pipelines, default and tiny, by name. Each loads the stages when it is first used.

Input: the tables of seams in stage_contracts/pipeline.py.
"""

from __future__ import annotations

import functools

from stage_contracts.pipeline import DEFAULT_SEAMS, TINY_SEAMS, Pipeline, load_pipeline


@functools.cache
def default_pipeline() -> Pipeline:
    """The seams that compile() uses by default: `cutaway.DEFAULT_PIPELINE`. Loads the stages."""
    return load_pipeline(DEFAULT_SEAMS)


@functools.cache
def tiny_pipeline() -> Pipeline:
    """The short implementation of every seam, to read: `cutaway.TINY_PIPELINE`."""
    return load_pipeline(TINY_SEAMS)
