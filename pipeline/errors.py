"""What the work raises besides what files and the network do. The message is one line for an operator."""

from __future__ import annotations


class CannotRun(Exception):
    """Spark cannot be run here: Java, PySpark or the jars are missing, or not those that fit. Says what to do."""


class NotDone(Exception):
    """Nothing was changed: what was asked for cannot be done, or would do harm."""


class SomethingWrong(Exception):
    """It had begun, and could not be brought to its end. What was done before is whole."""
