"""What more processes bring: the same load on shims with different numbers of them."""
