"""The console: a page that shows groups and moves them, at the admin port. The files beside this one are all of it."""

from shim.admin.console.files import PREFIX, PageFile, page_files

__all__ = ["PREFIX", "PageFile", "page_files"]
