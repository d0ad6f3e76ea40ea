"""Where records come from when they are not a matrix in memory: tables that are read again and again."""
