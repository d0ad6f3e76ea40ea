"""Methods whose first release chooses the public facts of an ordinary method that follows."""
