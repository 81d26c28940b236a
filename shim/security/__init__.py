"""Who a connection is, and what it may do: as the cluster says, never as the shim thinks."""
