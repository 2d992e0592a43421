"""Stage 4, the runtime: a Program becomes running code. Read README.md first, then `runtime/`.

Input: a Program from stage 3. Nothing is imported here, so that `import stage4_runtime` costs nothing.
"""
