"""Privacy events: what each release costs, and how it is priced."""
