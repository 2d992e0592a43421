"""Lab 19: bucketing and overlap. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
