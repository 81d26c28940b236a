"""The data directory as a whole: whose it is, what is noted in it, what one process leaves to the next."""
