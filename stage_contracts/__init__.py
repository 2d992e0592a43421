"""The types that pass between the stages, the seams, the event log and the configuration. See README.md."""
