"""Lab 8: memory planning. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
