"""Checks that need a browser: `make site-check` and `make explorer-check`. They are no part of `make test`."""
