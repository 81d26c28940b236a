"""The report: one HTML page that needs nothing from anywhere else."""

from pipeline.audit.report.page import MOST_DIFFERENCES, MOST_GROUPS, MOST_LEFT_OUT, Shown, page

__all__ = ["MOST_DIFFERENCES", "MOST_GROUPS", "MOST_LEFT_OUT", "Shown", "page"]
