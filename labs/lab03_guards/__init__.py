"""Lab 3: guards and dispatch. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
