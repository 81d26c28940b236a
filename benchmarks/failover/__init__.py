"""How long nobody takes commits of a group when who coordinated it is killed: a shim, or a broker of its cluster."""
