"""What is registered, read back: after a connection was lost nobody knows which of the last changes were done, and a
shim that takes the place finds what another one has left."""

from __future__ import annotations

from compat.registration import IDS, TOPICS, Registration, TopicZnodes
from shim.migration.registrar.claim import NotOurs, of_brokers
from shim.offsets.zookeeper.ensemble import Ensemble


async def read_registration(ensemble: Ensemble, session_id: int) -> Registration:
    """Raises :class:`NotOurs` for a broker's entry that is of another session, and
    :class:`shim.offsets.zookeeper.znodes.EnsembleError`."""
    return Registration(await _read_brokers(ensemble, session_id), await _read_topics(ensemble))


async def has_names_of(ensemble: Ensemble, registration: Registration) -> bool:
    """Whether there are those brokers' and topics' znodes and no others: cheap, and shows who else has written there.

    Raises :class:`shim.offsets.zookeeper.znodes.EnsembleError`.
    """
    ids, topics = await ensemble.children_many([IDS, TOPICS])
    return set(ids) == {str(each) for each in registration.brokers} and set(topics) == registration.topics.keys()


async def _read_brokers(ensemble: Ensemble, session_id: int) -> dict[int, bytes]:
    names = await ensemble.children(IDS)
    brokers = {}
    for name, znode in zip(names, await ensemble.get_many([f"{IDS}/{name}" for name in names]), strict=True):
        if znode is not None:
            if znode.ephemeral_owner != session_id:
                raise NotOurs(of_brokers(ensemble, f"{IDS}/{name}"))
            brokers[int(name)] = znode.data
    return brokers


async def _read_topics(ensemble: Ensemble) -> dict[str, TopicZnodes]:
    topics = await ensemble.children(TOPICS)
    paths = [f"{TOPICS}/{topic}" for topic in topics]
    values = await ensemble.get_many(paths)
    parents = await ensemble.get_many([f"{path}/partitions" for path in paths])
    numbers = await ensemble.children_many([f"{path}/partitions" for path in paths])
    of_states = [
        (topic, number, f"{path}/partitions/{number}/state")
        for topic, path, of_topic in zip(topics, paths, numbers, strict=True)
        for number in of_topic
    ]
    states: dict[str, dict[str, bytes | None]] = {topic: {} for topic in topics}
    found = await ensemble.get_many([path for _, _, path in of_states])
    for (topic, number, _), state in zip(of_states, found, strict=True):
        states[topic][number] = None if state is None else state.data
    return {
        topic: TopicZnodes(value.data, parent is not None, states[topic])
        for topic, value, parent in zip(topics, values, parents, strict=True)
        if value is not None
    }
