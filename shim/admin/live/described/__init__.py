"""The interface, described for programs: its paths, and what is asked and answered there."""
