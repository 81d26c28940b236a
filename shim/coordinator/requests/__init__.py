"""One module for each request that the coordinator decides, and what several of them share."""
