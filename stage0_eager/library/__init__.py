"""Custom operators: a user function as one row of the table, which no stage looks into."""
