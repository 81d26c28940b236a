"""The history of commits on its own topic: written beside the offsets, and read."""
