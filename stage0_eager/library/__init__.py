"""Custom operators: a function of the user as one row of the table that no stage opens."""
