"""Lab 11: side effects. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
