"""In whose hands each group is, and where its offsets are kept beside the log; and the registrar, by which old clients
find the shim."""
