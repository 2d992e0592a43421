"""The types that pass between the stages, the seams, the event ledger and the configuration. See README.md."""
