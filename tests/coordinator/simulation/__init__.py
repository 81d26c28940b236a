"""A coordinator among clients, a disk and a cluster that all fail, in simulated time; a witness judges it by what it
answers and records."""
