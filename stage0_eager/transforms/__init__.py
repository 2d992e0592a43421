"""Interpreters of operator calls (tracing, vmap), which you can nest, and transforms built from them (grad, jvp,
...)."""
