"""Private algorithms by the kind of problem that they solve; what all of them share stands beside the folders."""
