"""In whose hands each group is, and how it comes into others; and the registrar, by which old clients find the shim."""
