"""Offsets from and to elsewhere: the files of a stopped broker, the coordinators of a live cluster."""
