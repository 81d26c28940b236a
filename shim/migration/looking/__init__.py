"""Groups as they are, and as a start would find them; nothing is changed."""
