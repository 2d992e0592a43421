"""Interpreters of operator calls, which stack (recording, vmap), and the transforms made of them (grad, jvp, ...)."""
