"""Lab 4: the partition. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
