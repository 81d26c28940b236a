"""A script for one partition with dual commit: a client that changes its offset, an old consumer beside it, and what
goes wrong meanwhile, at whatever moment. All of it follows from a seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from protocol.own.state_log import STATE_TOPIC, Step
from protocol.partition import OFFSETS_TOPIC
from shim.migration.words import Refused
from tests.migration.simulated.dual_place import GROUP, SOON, DualPlace
from tests.migration.simulated.history import By, History, Value
from tests.migration.simulated.shim_process import NotDone

_Act = Callable[[], Coroutine[Any, Any, None]]

_STEPS: Final = (Step.ZOOKEEPER, Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL)
_FIRST: Final = 9
_LONGEST_PAUSES: Final = (0, 0, 0, 0.002, 0.006, 0.02, 0.06, 0.4, 0.5, 0.6, 2, 2 * SOON)
"""In seconds: about a write to the disk, a request to ZooKeeper, what its follower lags, and all that can be done."""
_BACK: Final = 3
"""A client goes back to one of so many that were there last."""
_AMID: Final = (0, 0.001, 0.004, 0.008)
_AMID_A_MOVE: Final = (*_AMID, 0.02, 0.04, 0.06, 0.08)
"""Likewise, from the beginning of what somebody is to come amid."""


class Script:
    """For the event loop. ``story``: what happens, each with the loop's time. ``counts``: of what, how often."""

    def __init__(self, seed: int, folder: Path, step: Step, *, moves: bool = False) -> None:
        """``step``: the group's, at the beginning. ``moves``: somebody moves it to others with ZooKeeper."""
        self.story: list[str] = []
        self.counts = Counter[str]()
        self._seed = seed
        self._rng = random.Random(seed)
        self._at = DualPlace(folder, seed)
        self._step = step
        self._lives = True
        self._history = History()
        self._removed: int | None = None
        """What is written from there on somebody may have created anew."""
        self._has_forgotten = False
        """The shim, what it was about to do in ZooKeeper: it was killed, or has read back its log."""
        self._values = iter(self._rng.sample(range(10, 10_000), 300))
        self._had = [_FIRST]
        """What a client may go back to."""
        self._while_it_lives: dict[_Act, int] = {
            self._commit: 30,
            self._delete: 12,
            self._consume: 20,
            self._kill: 9,
            self._tear: 5,
            self._lose: 4,
            self._reconnect: 4,
            self._stall: 3,
            self._disk: 4,
        }
        self._amid: dict[_Act, int] = {self._kill: 3, self._consume: 3, self._nothing: 4}
        self._while_it_is_dead: dict[_Act, int] = {self._start: 5, self._consume: 3, self._nothing: 2}
        if self._rng.random() < 0.5:
            for acts, weight in ((self._while_it_lives, 7), (self._amid, 1), (self._while_it_is_dead, 2)):
                acts[self._remove] = weight
        if moves:
            self._while_it_lives[self._move] = 12
        elif step is Step.KAFKA_DUAL and self._rng.random() < 0.5:
            self._while_it_lives[self._transact] = 8

    async def run(self, rounds: int) -> None:
        try:
            await self._at.begin(_FIRST, self._step)
            self._history.settle(_FIRST)
            for _ in range(rounds):
                await self._round()
                await self._quiet()
                self._look()
                await self._consumer_is_last()
        except BaseException as error:
            error.add_note("\n".join((f"seed {self._seed}", *self.story)))
            raise
        finally:
            await self._at.shim.kill()

    async def _round(self) -> None:
        """Nearly half of them without ZooKeeper, where most is to be told apart later."""
        if self._rng.random() < 0.4:
            await self._do(self._lose)
        for _ in range(self._rng.randint(3, 8)):
            await self._one_of(self._while_it_lives if self._lives else self._while_it_is_dead)
            await asyncio.sleep(self._rng.choice(_LONGEST_PAUSES) * self._rng.random())

    async def _one_of(self, acts: Mapping[_Act, int]) -> None:
        (act,) = self._rng.choices(list(acts), list(acts.values()))
        await self._do(act)

    async def _do(self, act: _Act) -> None:
        name = act.__name__.strip("_")
        self.counts[name] += 1
        self._tell(name)
        await act()

    # -- what a client does

    async def _commit(self) -> None:
        value = self._value()
        await self._change(value, self._at.commit({0: value}))

    async def _delete(self) -> None:
        await self._change(None, self._at.shim.delete(GROUP, [0]))

    async def _transact(self) -> None:
        """It is over at once when it has come to its end in the cluster's log. Others come while it is open."""
        value = self._value()
        self._tell(f"in a transaction, to {value}")
        try:
            await self._disturbed(self._at.shim.does(self._at.transactions.begin(value)))
        except NotDone:
            return  # and is left open, until the cluster ends it
        while self._lives and self._rng.random() < 0.5:
            await self._one_of(self._amid)
            await asyncio.sleep(self._rng.choice(_LONGEST_PAUSES) * self._rng.random())
        if not self._lives:
            return
        committed = self._rng.random() < 0.8
        if committed:
            self._history.begin(value, By.CLIENT, self._now()).acknowledged = True
        self._at.transactions.end(committed=committed)
        self._tell(f"in a transaction, to {value}: {'committed' if committed else 'aborted'}")

    async def _change(self, value: Value, asks: Coroutine[Any, Any, None]) -> None:
        written = self._history.begin(value, By.CLIENT, self._now())
        self._tell(f"to {value}")
        try:
            await self._disturbed(self._at.shim.does(asks))
        except NotDone as error:
            self._tell(f"to {value}: not done, {error}")
            self.counts["not done"] += 1
        else:
            self._tell(f"to {value}: done")
            written.acknowledged = True

    async def _disturbed(self, does: Coroutine[Any, Any, None], amid: Sequence[float] = _AMID) -> None:
        """By somebody else, half of the times."""
        doing = asyncio.create_task(does)
        if self._rng.random() < 0.5:
            await asyncio.sleep(self._rng.choice(amid))
            if not doing.done():
                self.counts["amid"] += 1
                await self._one_of(self._amid)
        await doing

    def _value(self) -> int:
        """A new one, or one that was there before."""
        coordinator = self._at.shim.runtime.coordinator(0)
        if coordinator is not None and not coordinator.is_behind and self._rng.random() < 0.5:
            has = self._at.log.get(0)
            if others := [each for each in self._had[-_BACK:] if each != has]:
                self.counts["back"] += 1
                return self._rng.choice(others)
        self._had.append(next(self._values))
        return self._had[-1]

    # -- what others do

    async def _consume(self) -> None:
        """As a rule once."""
        for _ in range(self._rng.choice((1, 1, 1, 2, 4))):
            self._consumer_writes()

    def _consumer_writes(self) -> int:
        value = next(self._values)
        self._at.consumer(0, value)
        self._history.begin(value, By.CONSUMER, self._now())
        self._tell(f"consumer: {value}")
        if self._rng.random() < 0.2:
            self._had.append(value)
        return value

    async def _remove(self) -> None:
        """Somebody deletes the znode, past the shim, which is no commit."""
        if self._at.deleted(0) and self._removed is None:
            self._removed = len(self._history.written)

    async def _move(self) -> None:
        """The group goes on a step, or back."""
        shim = self._at.shim
        step = shim.step_of(GROUP)
        if step is None:
            return
        to = self._rng.choice([each for each in _STEPS if abs(_STEPS.index(each) - _STEPS.index(step)) == 1])
        try:
            await self._disturbed(shim.does(shim.stepping.move(GROUP, to, "a test")), _AMID_A_MOVE)
        except (NotDone, Refused) as error:
            self._tell(f"not {to.name}: {error}")
        else:
            self._tell(to.name)
            self.counts["moved"] += 1

    async def _nothing(self) -> None:
        pass

    # -- what goes wrong

    async def _kill(self) -> None:
        if self._lives:
            self._lives = False
            self._has_forgotten = True
            await self._at.shim.kill()
            self._tell("killed")

    async def _start(self) -> None:
        self._at.start()
        self._lives = True

    async def _tear(self) -> None:
        """It is killed between two writes to the disk that belong together."""
        disk, torn = self._at.shim.disk, asyncio.Event()
        disk.tear(torn.set, self._rng.choice((OFFSETS_TOPIC, STATE_TOPIC)))
        doing = asyncio.create_task(self._rng.choice((self._commit, self._delete, self._consume))())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rng.choice((0.01, 2))):
                await torn.wait()
        if torn.is_set():
            self.counts["torn"] += 1
            await self._kill()
        else:
            disk.heal()
        await doing

    async def _lose(self) -> None:
        self._at.shim.ensemble.lose()

    async def _reconnect(self) -> None:
        self._at.shim.ensemble.lose()
        self._at.shim.ensemble.connect(expired=self._rng.random() < 0.5)

    async def _stall(self) -> None:
        self._at.shim.ensemble.stall(self._rng.choice((0.1, 3)))

    async def _disk(self) -> None:
        self._has_forgotten = True
        self._at.shim.disk.fail_once(self._rng.choice(("pwrite", "fdatasync")))

    # -- what is left

    async def _quiet(self) -> None:
        if not self._lives:
            await self._start()
        self._tell("quiet")
        self._at.shim.disk.heal()
        self._at.transactions.abort_all()
        await self._reconnect()
        await asyncio.sleep(2 * SOON)  # longer than the longest wait before what has failed is tried again
        self._at.tree.catch_up()
        await asyncio.sleep(SOON)
        await self._at.fetched()
        await asyncio.sleep(SOON)

    def _look(self) -> None:
        left = self._at.log.get(0)
        assert left == self._at.stands(0), "both have the same"
        allowed = self._history.possible_where_the_log_is_right() + self._created_anew()
        assert left in allowed, f"{left} is left, not one of {allowed}"

    def _created_anew(self) -> list[Value]:
        """Where somebody has deleted the znode, and a client the offset, and the shim does not know whether it has
        deleted the znode itself: nobody knows which of the two an old consumer came behind, and what it has written
        stands."""
        its = self._history
        if self._removed is None or not self._has_forgotten or its.written[its.last(By.CLIENT)].value is not None:
            return []
        return [each.value for each in its.written[self._removed :] if each.by is By.CONSUMER]

    async def _consumer_is_last(self) -> None:
        """Both were alike: what it writes is newer, whether the shim runs meanwhile or not."""
        if self._rng.random() < 0.7:
            await self._kill()
        for _ in range(self._rng.randint(1, 3)):
            last = self._consumer_writes()
        self._at.tree.catch_up()
        if not self._lives:
            await self._start()
        await asyncio.sleep(SOON)
        self._tell("looked at once more")
        assert self._at.log == {0: last}, "what was written last"
        self._history.settle(last)
        self._removed = None
        self._has_forgotten = False
        self._had.append(last)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _tell(self, what: str) -> None:
        self.story.append(f"{self._now():.4f} {what}")
