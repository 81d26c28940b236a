"""Clients of a shim, old consumers beside it, whoever moves groups from step to step, and what goes wrong meanwhile:
in rounds, after each of which all is quiet and looked at. All of it follows from a seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from compat import zookeeper as layout
from protocol.own.state_log import STATE_TOPIC, ZOOKEEPER_IS_RIGHT, Step
from protocol.partition import OFFSETS_TOPIC
from shim.migration.words import Refused
from tests.migration.simulated.history import PARTITIONS, By, History, Value
from tests.migration.simulated.shim_process import TOPIC, NotDone, ShimProcess
from tests.migration.simulated.znode_tree import ZnodeTree

GROUPS: Final = ("g", "h")
ROUND_SECONDS: Final = 40.0
QUIET_SECONDS: Final = 60.0
"""Of the loop's own time, in which all that failed is tried again, and more than once."""
PAUSE_SECONDS: Final = 0.5
FAULT_SECONDS: Final = 4.0
_STEPS: Final = (Step.ZOOKEEPER, Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL, Step.KAFKA)
_IN_ZOOKEEPER: Final = frozenset(_STEPS[:3])


Actor = Callable[..., Coroutine[Any, Any, None]]


class Use(Enum):
    """Of a group, in one round. ``TURNS``: consumers and clients, one at a time; ``BOTH``: at the same time."""

    CLIENTS = auto()
    CONSUMERS = auto()
    TURNS = auto()
    BOTH = auto()


_USES: Final = {
    Step.KAFKA: (Use.CLIENTS,),
    Step.KAFKA_DUAL: (Use.CLIENTS, Use.CONSUMERS, Use.BOTH),
    Step.ZOOKEEPER: tuple(Use),
    Step.ZOOKEEPER_DUAL: tuple(Use),
}


class World:
    def __init__(self, seed: int, data_dir: Path, *, torn: bool = False, stays_dual: bool = False) -> None:
        """``torn``: a kill may leave a part of what was to be written together. ``stays_dual``: at `kafka` with dual
        commit, where both write at once."""
        self._torn = torn
        self._stays_dual = stays_dual
        self.rng = random.Random(seed)
        self.counts = Counter[str]()
        self.story: list[str] = []
        self._data_dir = data_dir
        self._tree = ZnodeTree(random.Random(seed + 1))
        self._shim: ShimProcess | None = None
        self._back = asyncio.Event()
        self._histories = {(group, at): History() for group in GROUPS for at in PARTITIONS}
        self._steps: dict[str, Step] = {}
        self._uses: dict[str, Use] = {}
        self._moving: set[str] = set()
        self._stays: set[str] = set()
        """Groups that nobody moves in this round."""
        self._values = self.rng.sample(range(10**6), 10**5)

    async def run(self, rounds: int) -> None:
        for group in GROUPS:
            self._tree.put(f"{layout.ids_path(group)}", b"")
            for at in PARTITIONS:
                await self._put(group, at)
        self._start()
        try:
            await self._quiet()
            if self._stays_dual:
                await self._to_kafka_dual()
            for _ in range(rounds):
                self._begin_round()
                async with asyncio.timeout(ROUND_SECONDS * 100):
                    await self._round()
                await self._quiet()
                if self._stays_dual:
                    await self._on_the_way_back()
                    await self._quiet()
        finally:
            if self._shim is not None:
                await self._shim.kill()

    async def _to_kafka_dual(self) -> None:
        shim = self._live()
        for step in _STEPS[1:3]:
            for group in GROUPS:
                await shim.does(shim.stepping.move(group, step, "a test"))
            await asyncio.sleep(QUIET_SECONDS)

    # -- a round

    def _begin_round(self) -> None:
        self._stays.clear()
        for group in GROUPS:
            step = self._steps[group] = self._live().step_of(group) or Step.KAFKA
            use = self._uses[group] = Use.BOTH if self._stays_dual else self.rng.choice(_USES[step])
            if self._stays_dual or use is Use.TURNS or self.rng.random() < 0.3:
                self._stays.add(group)
            self._tell(f"round: {group} at {step.name}, {use.name}")
            here = f"{layout.ids_path(group)}/consumer"
            if use is Use.CLIENTS:
                self._tree.remove(here)
            else:
                self._tree.put(here, b"")

    async def _round(self) -> None:
        over = asyncio.get_running_loop().time() + ROUND_SECONDS
        actors: list[Coroutine[Any, Any, None]] = [self._again(over, FAULT_SECONDS, self._fault)]
        for group in GROUPS:
            actors += [self._again(over, PAUSE_SECONDS, writer, group) for writer in self._writers(group)]
            actors.append(self._again(over, PAUSE_SECONDS, self._fetch, group))
            if group not in self._stays:
                actors.append(self._again(over, FAULT_SECONDS * 2, self._move, group))
        async with asyncio.TaskGroup() as group_of_actors:
            for each in actors:
                group_of_actors.create_task(each)

    def _writers(self, group: str) -> Sequence[Actor]:
        async def turns(group: str) -> None:
            await self.rng.choice((self._change, self._consume))(group)

        writers: dict[Use, Sequence[Actor]] = {
            Use.CLIENTS: [self._change],
            Use.CONSUMERS: [self._consume],
            Use.TURNS: [turns],
            Use.BOTH: [self._change, self._consume],
        }
        return writers[self._uses[group]]

    async def _again(
        self, until: float, pause: float, what: Callable[..., Coroutine[Any, Any, None]], *of: str
    ) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(self.rng.expovariate(1 / pause))
            await what(*of)

    # -- who writes

    def _value(self) -> int:
        return self._values.pop()

    async def _change(self, group: str) -> None:
        before = {at: self._last(group, at) for at in PARTITIONS}
        values = await self._changed(group)
        if self.rng.random() < 0.2 and (back := {at: before[at] for at in values if before[at] is not None}):
            self.counts["and back"] += 1
            await self._changed(group, back)

    def _last(self, group: str, at: int) -> Value:
        history = self._histories[group, at]
        return history.written[history.last(*By)].value

    async def _changed(self, group: str, to: dict[int, Value] | None = None) -> dict[int, Value]:
        """Gives what was done, if it was. ``to``: a commit of these."""
        await self._back.wait()
        some = self.rng.sample(PARTITIONS, self.rng.randint(1, len(PARTITIONS)))
        kind = self.rng.random()
        values: dict[int, Value] = dict.fromkeys(PARTITIONS if kind < 0.03 else some)
        if any(self._histories[group, at].has_failed(None) for at in PARTITIONS):
            kind = 1.0  # the same once more would not be told from what has failed
        if to is not None:
            kind, values = 1.0, to
        elif kind > 0.1:
            values = {at: self._value() for at in values}
        begun = [self._histories[group, at].begin(value, By.CLIENT) for at, value in values.items()]
        for each in begun:
            each.begun = self._now()
        shim = self._live()
        self._tell(f"{group}: change {values}")
        try:
            if kind < 0.03:
                await shim.does(shim.delete_group(group))
            elif kind <= 0.1:
                await shim.does(shim.delete(group, list(values)))
            else:
                await shim.does(shim.commit(group, values))
        except NotDone as error:
            self._tell(f"{group}: change {values} not done: {error}")
            self.counts["changes not done"] += 1
            return {}
        self._tell(f"{group}: changed {values}")
        self.counts["changes"] += 1
        for each in begun:
            each.acknowledged = True
        return values

    async def _consume(self, group: str) -> None:
        await self._put(group, self.rng.choice(PARTITIONS))

    async def _put(self, group: str, at: int) -> None:
        value = self._value()
        written = self._histories[group, at].begin(value, By.CONSUMER)
        path = layout.offset_path(group, TOPIC, at)
        await asyncio.sleep(self.rng.expovariate(100))
        if self.rng.random() < 0.1 and self._is_seen(group) and self._tree.remove(path):
            self._histories[group, at].deleted()
            await asyncio.sleep(self.rng.choice((0, 0.02, 2)))
            self.counts["created anew"] += 1
        self._tree.put(path, layout.offset_data(value))
        written.begun = self._now()
        self._tell(f"{group}: consumer {at}: {value}, version {self._tree.leader.znodes[path].version}")
        written.acknowledged = True
        self.counts["direct"] += 1

    # -- who reads

    async def _fetch(self, group: str) -> None:
        await self._back.wait()
        shim = self._live()
        before = shim.step_of(group)
        histories = {at: self._histories[group, at] for at in PARTITIONS}
        strong = {at: it.last(*By) for at, it in histories.items()}
        weak = {at: it.last(By.CLIENT) for at, it in histories.items()}
        deletions = {at: it.deletions for at, it in histories.items()}
        try:
            found = await shim.does(shim.fetch(group))
        except NotDone:
            self.counts["fetches not done"] += 1
            return
        self.counts["fetches"] += 1
        told_later = Step.KAFKA_DUAL in (before, shim.step_of(group)) or before is None
        if self._uses[group] is Use.BOTH:
            return
        for at, it in histories.items():
            first = weak[at] if told_later or it.deletions > deletions[at] else strong[at]
            allowed = it.since(first)
            assert found.get(at) in allowed, self._why(f"{group}-{at} was told to be {found.get(at)}, not {allowed}")

    # -- who moves

    async def _move(self, group: str) -> None:
        await self._back.wait()
        shim = self._live()
        step = shim.step_of(group)
        if step is None:
            return
        at = _STEPS.index(step) + self.rng.choice((-1, 1))
        if at not in range(len(_STEPS)):
            return
        self._moving.add(group)
        try:
            await shim.does(shim.stepping.move(group, _STEPS[at], "a test"))
        except (NotDone, Refused) as error:
            self._tell(f"{group}: not {_STEPS[at].name}: {error}")
            self.counts["moves refused"] += 1
        else:
            self._tell(f"{group}: {_STEPS[at].name}")
            self.counts[f"moves to {_STEPS[at].name}"] += 1
        finally:
            self._moving.discard(group)

    # -- what goes wrong

    async def _fault(self) -> None:
        fault = self.rng.choice((self._kill, self._kill, self._away, self._away, self._stall, self._disk, self._remove))
        self._tell(fault.__name__)
        self.counts[fault.__name__.strip("_")] += 1
        await fault()

    async def _kill(self) -> None:
        shim = self._live()
        if self._torn and self.rng.random() < 0.3:
            killed = asyncio.Event()
            shim.disk.tear(killed.set, self.rng.choice((OFFSETS_TOPIC, STATE_TOPIC)))
            try:
                async with asyncio.timeout(2):
                    await killed.wait()
            except TimeoutError:
                self._tell("not torn")
        self._back.clear()
        self._shim = None
        await shim.kill()
        self._tell("killed")
        await asyncio.sleep(self.rng.choice((0, 0.1, 3)))
        self._start()

    async def _on_the_way_back(self) -> None:
        """Of what ZooKeeper, which has been away for a while, has nothing yet, and the shim is killed, mostly."""
        self._live().ensemble.lose()
        for group in GROUPS:
            had = {at: self._last(group, at) for at in PARTITIONS}
            changed = dict(await self._changed(group))
            await asyncio.sleep(self.rng.choice((0, 3)))
            await self._consume(group)
            changed |= await self._changed(group)
            if back := {at: had[at] for at in changed if had[at] is not None}:
                self.counts["back alone"] += 1
                await self._changed(group, back)
        if self.rng.random() < 0.3:
            self._live().ensemble.connect(expired=True)
        else:
            await self._kill()

    async def _away(self) -> None:
        self._live().ensemble.lose()
        await asyncio.sleep(self.rng.choice((0, 0.1, 3, 25)))
        self._live().ensemble.connect(expired=self.rng.random() < 0.5)

    async def _stall(self) -> None:
        self._live().ensemble.stall(self.rng.choice((0.1, 3, 15)))

    async def _disk(self) -> None:
        self._live().disk.fail_once(self.rng.choice(("pwrite", "fdatasync")))

    async def _remove(self) -> None:
        """Somebody deletes an offset, which is not to be taken for a commit."""
        group, at = self.rng.choice(GROUPS), self.rng.choice(PARTITIONS)
        if self._is_seen(group):
            self._tree.remove(layout.offset_path(group, TOPIC, at))
            self._histories[group, at].deleted()

    def _is_seen(self, group: str) -> bool:
        """Whether the shim can tell what is deleted and created anew. With `kafka` and dual commit what it has noted is
        a version, which can come again where the shim does not look meanwhile."""
        return group not in self._moving and self._shim is not None and self._shim.step_of(group) in ZOOKEEPER_IS_RIGHT

    # -- what is left

    async def _quiet(self) -> None:
        shim = self._live()
        shim.disk.heal()
        await asyncio.sleep(QUIET_SECONDS)
        for group in GROUPS:
            await shim.does(shim.fetch(group))
        self._tree.catch_up()
        await asyncio.sleep(QUIET_SECONDS)  # a group is watched from its first fetch on, and what is told is read again
        assert not shim.dual_commit.outbox.lagging, self._why("something is still to be written")
        for group in GROUPS:
            step = shim.step_of(group)
            found = await shim.does(shim.fetch(group))
            for at in PARTITIONS:
                here, there = found.get(at), self._stands(group, at)
                name = f"{group}-{at} at {step.name if step is not None else step}"
                if step in _IN_ZOOKEEPER:
                    assert here == there, self._why(f"{name}: the log has {here}, ZooKeeper {there}")
                both = self._uses.get(group) is Use.BOTH
                allowed = self._histories[group, at].possible(both_at_once=both)
                if both and step is Step.KAFKA_DUAL and group in self._stays:
                    self.counts["the log is right"] += 1
                    allowed = self._histories[group, at].possible_where_the_log_is_right()
                assert here in allowed, self._why(f"{name}: {here} is left, not one of {allowed}")
                self._histories[group, at].settle(here)

    def _stands(self, group: str, at: int) -> Value:
        znode = self._tree.leader.znodes.get(layout.offset_path(group, TOPIC, at))
        return None if znode is None else layout.parse_offset(znode.data)

    # -- the shim

    def _start(self) -> None:
        shim = self._shim = ShimProcess(self._data_dir, self._tree, self.rng)
        shim.start()
        shim.ensemble.connect()
        self._back.set()

    def _live(self) -> ShimProcess:
        assert self._shim is not None
        return self._shim

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():.4f} {what}")

    def _why(self, what: str) -> str:
        return "\n".join([*self.story, what])
