"""Lab 12: dynamic shapes. lab.toml has its data, checks.py its checks, page.md what the learner reads."""
