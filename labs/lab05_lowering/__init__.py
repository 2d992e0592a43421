"""Lab 5: lowering to loops. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
