"""The standard library, name by name: the tables that test_stage1_capture_library.py walks over."""
