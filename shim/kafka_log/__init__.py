"""The log on topics of the cluster (docs/decisions/0018).

`backend.py` is the door. `taking_over/` has partitions come here, `writing/` writes what is decided of them, and
`history/` the history beside it; all of them do so as `owning/` has it, in batches that `producing/` sends. What a
partition that comes is made of is in `copies/`; how one is read back is in `reading/`, and the topics themselves are in
`topics/`. By `lease.py` owners know until when they may tell what they have, and those who come after them how long to
wait.
"""
