"""Lab 1: a tape that differentiates. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
