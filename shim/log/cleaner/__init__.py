"""What becomes of closed segments: compaction, of the history deletion, and swapping in what is left."""
