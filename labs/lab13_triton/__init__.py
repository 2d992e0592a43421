"""Lab 13: Triton. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
