"""Compare dpconvex with its peers on real tables (`make bench`).

Two environments take part: ours (`prepare`, `ours`, `report`) and the peers' (`peers`). Tables travel as arrays,
encoded once by our public schemas, and results as JSON lines.
"""
