"""Lab 6: fusion. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
