"""The admin interface of a running shim: HTTP and JSON, for `offset-shim groups` and `offset-shim migrate`.

`serving.py` is the shim's side, `asking.py` the commands'; what moves groups is behind `migrating.py`.
"""
