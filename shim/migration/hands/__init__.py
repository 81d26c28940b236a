"""In whose hands each group is, and how it comes into others."""
