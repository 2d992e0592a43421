"""Lab 16: debugging. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
