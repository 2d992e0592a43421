"""Small programs by topic. Each runs twice: as it is, and with a break wherever it says `mark()`."""
