"""The admin interface of a running shim: HTTP and JSON, for `offset-shim groups` and `offset-shim migrate`.

`serving.py` opens the port; what moves groups is behind `asked/migration.py`.
"""
