"""The command line: thin commands over the estimators, tables for people, JSON for programs, and the report."""
