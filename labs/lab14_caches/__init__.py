"""Lab 14: caches. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
