"""Lab 15: CUDA graphs. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
