"""Where the registrar may write: an ensemble or chroot of its cluster's own, and there one shim at a time.

Who may, two znodes say, which every write of the registrar is conditional on:

- ``/offset-shim/registrar`` stays for ever. It is made together with ``/brokers``, in one transaction, so there is no
  moment at which the ``/brokers`` of somebody else could be taken for the registrar's. It says which cluster is
  registered here. Who takes the place sets it anew, so its version is another one for each who has had it.
- ``/offset-shim/registrar/owner``, ephemeral: who has the place. It goes with the session, as what is in
  ``/brokers/ids`` does, so that both are there or neither.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from compat.registration import IDS, OF_BROKERS, TOPICS, marked_cluster, marker_value
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.znodes import (
    Check,
    Create,
    Delete,
    EnsembleUnavailable,
    MultiFailed,
    Operation,
    Set,
    Znode,
    ZnodeExists,
)

MARKER: Final = "/offset-shim/registrar"
OWNER: Final = f"{MARKER}/owner"

_CONTROLLER: Final = "/controller"


class NotOurs(Exception):
    """What is there is somebody else's. The message is one line for an operator."""


class HeldByAnother(Exception):
    """Another shim of the same cluster has the place. The message is one line for an operator."""


class Claim(NamedTuple):
    """``session_id``: whose ephemeral znodes stand there. ``conditions``: of every write, so that none is done once
    somebody else has the place."""

    session_id: int
    conditions: tuple[Check, ...]


async def take_claim(ensemble: Ensemble, cluster_id: str, who: str) -> Claim:
    """``who``: of this shim and no other that runs. What the same one had registered before it was started anew, and
    whose session has not expired yet, is taken over without a gap.

    Raises :class:`NotOurs`, :class:`HeldByAnother`, :class:`shim.offsets.zookeeper.znodes.EnsembleError`.
    """
    marker = await ensemble.get(MARKER) or await _marked(ensemble, cluster_id)
    _check_cluster(ensemble, marker, cluster_id)
    owner, session_id = await ensemble.get(OWNER), ensemble.session_id
    if session_id is None:
        raise EnsembleUnavailable(f"{_name(ensemble)} was lost on the way")
    await _check_brokers(ensemble, {session_id} if owner is None else {session_id, owner.ephemeral_owner})
    if owner is not None and owner.ephemeral_owner == session_id:
        return _claim(session_id, marker.version)
    operations: list[Operation] = [Set(MARKER, marker.data, marker.version)]
    if owner is not None:
        if owner.data != who.encode():
            raise HeldByAnother(f"{owner.data.decode(errors='replace')} registers the cluster in {_name(ensemble)}")
        operations.append(Delete(OWNER))
        for path, znode in (await _ids(ensemble)).items():
            operations += (Delete(path), Create(path, znode.data, ephemeral=True))
    operations.append(Create(OWNER, who.encode(), ephemeral=True))
    version, *_ = await ensemble.multi(operations)
    assert version is not None, "of a Set there is one"
    return _claim(session_id, version)


async def still_stands(ensemble: Ensemble, claim: Claim) -> bool:
    """Raises :class:`NotOurs`, :class:`shim.offsets.zookeeper.znodes.EnsembleError`."""
    controller, owner = await ensemble.get_many([_CONTROLLER, OWNER])
    if controller is not None:
        raise NotOurs(of_brokers(ensemble, _CONTROLLER))
    return owner is not None and owner.ephemeral_owner == claim.session_id


def _claim(session_id: int, version: int) -> Claim:
    # The second one fails where our session has expired and nobody else has come, the first one where somebody has.
    return Claim(session_id, (Check(MARKER, version), Check(OWNER)))


async def _marked(ensemble: Ensemble, cluster_id: str) -> Znode:
    for path, znode in zip(OF_BROKERS, await ensemble.get_many(OF_BROKERS), strict=True):
        if znode is not None:
            raise NotOurs(of_brokers(ensemble, path))
    parent = MARKER.rpartition("/")[0]
    await ensemble.make_path(parent)
    made = [Create(MARKER, marker_value(cluster_id)), *map(Create, (IDS.rpartition("/")[0], IDS, TOPICS))]
    try:
        await ensemble.multi(made)
    except MultiFailed as error:
        if not isinstance(error.reason, ZnodeExists):
            raise
        if error.operation.path != MARKER:  # a broker was quicker
            raise NotOurs(of_brokers(ensemble, error.operation.path)) from error
    marker = await ensemble.get(MARKER)
    if marker is None:
        raise NotOurs(f"somebody has deleted {MARKER} in {_name(ensemble)} as it was made")
    return marker


def _check_cluster(ensemble: Ensemble, marker: Znode, cluster_id: str) -> None:
    try:
        marked = marked_cluster(marker.data)
    except ValueError as error:
        raise NotOurs(f"{MARKER} in {_name(ensemble)}: {error}") from error
    if marked != cluster_id:
        raise NotOurs(
            f"{_name(ensemble)} is where cluster {marked} is registered, and this one is {cluster_id}: "
            "--registrar needs an ensemble or a chroot for this cluster alone"
        )


async def _check_brokers(ensemble: Ensemble, ours: set[int]) -> None:
    """``ours``: session ids of which entries may be."""
    if await ensemble.get(_CONTROLLER) is not None:
        raise NotOurs(of_brokers(ensemble, _CONTROLLER))
    for path, znode in (await _ids(ensemble)).items():
        if znode.ephemeral_owner not in ours:
            raise NotOurs(of_brokers(ensemble, path))


async def _ids(ensemble: Ensemble) -> dict[str, Znode]:
    paths = [f"{IDS}/{name}" for name in await ensemble.children(IDS)]
    found = zip(paths, await ensemble.get_many(paths), strict=True)
    return {path: znode for path, znode in found if znode is not None}


def of_brokers(ensemble: Ensemble, path: str) -> str:
    """What to say of a znode that is somebody else's."""
    return (
        f"{_name(ensemble)} has a {path} that the registrar did not make: it is a cluster's own; "
        "--registrar needs an ensemble or a chroot for itself"
    )


def _name(ensemble: Ensemble) -> str:
    return f"ZooKeeper at {ensemble.connect}"
