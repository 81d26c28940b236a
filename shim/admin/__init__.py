"""What an operator does with the shim: the commands ``config``, ``log``, ``groups`` and ``migrate``
(``shim.admin.commands``), and what a running shim is asked (``shim.admin.live``).

Nothing is imported here: a shim that serves needs the second without the first.
"""
