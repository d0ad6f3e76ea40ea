"""Methods that prepare a problem, mostly by a first release, for an ordinary method that follows."""
