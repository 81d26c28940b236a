"""Work on many groups: in what steps it is done, and how what has come of each group goes out."""
