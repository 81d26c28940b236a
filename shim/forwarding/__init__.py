"""A client's request to whoever owns the group's offsets partition, and the answer back (docs/decisions/0021).

What carries it is not known here: TCP between machines, or a socket of the system between processes of one.
"""

from shim.forwarding.broken import Broken
from shim.forwarding.home import ONE_BY_ONE, Asked, Failed, HomeSide, Request
from shim.forwarding.owner import Entrusted, OwnerSide, Room
from shim.forwarding.peers import Dial, Forwarded, OwnerOf, Peer, Peers
from shim.forwarding.serving import Accept, PeerServer

__all__ = [
    "ONE_BY_ONE",
    "Accept",
    "Asked",
    "Broken",
    "Dial",
    "Entrusted",
    "Failed",
    "Forwarded",
    "HomeSide",
    "OwnerOf",
    "OwnerSide",
    "Peer",
    "PeerServer",
    "Peers",
    "Request",
    "Room",
]
