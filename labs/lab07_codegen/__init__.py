"""Lab 7: C++ code generation. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
