"""The commands of ``offset-shim log``: what they take, what they print, and how they end."""
