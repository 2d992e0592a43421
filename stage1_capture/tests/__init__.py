"""Tests of stage 1, run alone: `pytest stage1_capture`."""
