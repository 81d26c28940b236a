"""The commands ``offset-shim config``, ``log``, ``groups`` and ``migrate``: what they take, what they print, and how
they end.
"""
