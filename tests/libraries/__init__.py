"""transformers, timm and torchvision as installed, on Cutaway and on torch: `make libraries`.

Input: the extra `libraries`. zoo.py has the models, one_run.py measures one of them in a process of its own, report.py
compares. What needs no library (files, hub, stand-ins) is tested in every run of the tests.
"""
