"""Convex functions of any form: what they must provide, and a search that attacks what they claim."""
