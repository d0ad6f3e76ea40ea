"""Linear models: losses of scores, averaged, tilted, attacked or truncated."""
