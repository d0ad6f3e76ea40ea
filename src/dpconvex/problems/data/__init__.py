"""Public domains of records, points and users, and the sanitized data in them."""
