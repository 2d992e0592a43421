"""Lab 18: a backend of your own. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
