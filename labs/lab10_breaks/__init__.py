"""Lab 10: graph breaks. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
