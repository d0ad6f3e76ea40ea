"""Private answers to many linear queries, and synthetic tables that answer them."""
