"""`serve --workers N`: several processes on one machine, which are one shim for clients and for operators.

``parent``: begins them, and what happens when one is gone; ``at_parent``: what a worker and it say to each other.
``between_workers``: how requests come to the worker that has the group. ``remote_calls``: what the worker with the
admin port asks of the others, and ``all_workers``: what it makes of that. What a worker serves is wired as of any shim
(shim/serve). Their shares of the log are shim/log/directory/shares.py; where in a data directory all of it is, is in
shim/workers_folder.py, as the log and who judges the settings know it, too. For whoever runs it: docs/workers.md.
"""
