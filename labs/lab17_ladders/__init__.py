"""Lab 17: kernel ladders. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
