"""The two topics that the log is kept on: what they are to be like, made, and looked at."""
