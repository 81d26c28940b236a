"""A sequence, sent step by step to both coordinators.

When is a request parked, and not merely on its way? After each step each side is asked three times, one after the
other, on a connection of their own, what it has now. The broker has one network thread and one thread that handles
requests (see `pair.py`), so when it has read the first of these it has read the step's request, which came before, on a
connection that it has answered on (see `wire.py`); when it handles the second it has handled the step's, in the queue
before it; and the coordinator of a partition takes its requests in their order. What it has answered by then, it has
sent before it reads the third. The shim does everything in one loop, but for a group's first contact, when it asks the
cluster whose the group is: until it is as far as the broker, they differ, and are asked again. So an answer that is not
there then waits for something else to happen.

Nothing happens by itself but time-outs, which are too long to be met by chance, or are waited for; and the initial
rebalance delay, which is 0 but not over at once: a group that has just left Empty is looked at until it is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import join_group, sync_group
from tests.differential.comparing import (
    comparable,
    describe_difference,
    never_answered,
    sort_described,
    sort_fetched,
    winners,
)
from tests.differential.pair import Pair
from tests.differential.requests import request_of
from tests.differential.side import Answer, Ask, Side, View, errors_in, learn
from tests.differential.steps import SHORT_MS, Await, DeleteOffsets, Pass, Sequence, Step, Timing
from tests.differential.wire import NoAnswer

PARKING = frozenset({join_group.API.key, sync_group.API.key})
_FROM_EMPTY = frozenset({"Empty", "Dead"})
_PREPARING = "PreparingRebalance"
_STABLE = "Stable"
_LOOK_S = 0.001  # between two looks: neither coordinator tells when something happens by itself
_SHORT_S = SHORT_MS / 1000
_MARGIN_S = 0.02
_EARLY_S = 0.15  # so much earlier patience ends: what has expired at one may soon have expired at both
_PASSING = 0.6  # of the session time-out, and as much again
_HEARD_OF = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED})


class Difference(NamedTuple):
    """`number`: of the step after which the two differed."""

    number: int
    step: Step
    lines: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The same for differences that look alike."""
        return "; ".join((type(self.step).__name__, *self.lines))

    def __str__(self) -> str:
        return "\n".join((f"step {self.number} {self.step!r}", *(f"    {line}" for line in self.lines)))


class Same(NamedTuple):
    steps: int


class Undetermined(NamedTuple):
    """Both did what they may, each in its own way; nothing after it can be compared."""

    steps: int
    why: str


class TooSlow(NamedTuple):
    """Something may have expired by chance."""

    steps: int


Result = Same | Undetermined | TooSlow | Difference


class _Undetermined(Exception):
    pass


class _TooSlow(Exception):
    pass


def run(pair: Pair, sequence: Sequence, patience_s: float = 5.0) -> Result:
    """Send a sequence to both. `patience_s`: how long one of them may take to do what the other has done."""
    attempt = _Run(pair, sequence, patience_s)
    try:
        return attempt.run()
    finally:
        attempt.end()


def run_around(
    pair: Pair, sequences: Iterable[Sequence], event: Callable[[], None], patience_s: float = 5.0
) -> list[Result]:
    """Send the first halves of sequences, one after the other; then have something happen to both, once; then send the
    rest. Connections, and what is waited for on them, do not outlast the event."""
    attempts = [_Run(pair.apart(), sequence, patience_s) for sequence in sequences]
    results = [attempt.run(last=len(attempt.sequence.steps) // 2) for attempt in attempts]
    for attempt in attempts:
        attempt.disconnect()
    event()
    for position, attempt in enumerate(attempts):
        attempt.connect()
        try:
            if isinstance(results[position], Same):
                results[position] = attempt.go_on(len(attempt.sequence.steps) // 2)
        finally:
            attempt.end()
            attempt.disconnect()
    return results


class _Run:
    def __init__(self, pair: Pair, sequence: Sequence, patience_s: float) -> None:
        self.pair = pair
        self.broker, self.shim = self.sides = (pair.broker, pair.shim)
        self.sequence = sequence
        self.patience_s = patience_s
        self.taken = 0  # steps that meant something
        self.leader: str | None = None
        self.left = False  # whether somebody has gone since that one led
        self.unchanged_at = time.monotonic()  # the last moment before anything that may expire began
        self.sent_at = self.unchanged_at
        self.safe_until: float | None = None
        self.heard_of: dict[str, float] = {}  # in a sequence with a short session: when actor 0 was, by member id
        group = pair.new_group()
        for side in self.sides:
            side.begin(sequence, group)
        self.view = self.look()[0]
        self.subscriptions = self.view.subscriptions  # with which the present generation became Stable

    def run(self, first: int = 0, last: int | None = None) -> Result:
        """Those steps."""
        if self.sequence.timing is Timing.REBALANCE:
            self.safe_until = self.unchanged_at + _SHORT_S
        for number, step in enumerate(self.sequence.steps[first:last], first):
            try:
                lines = self.take(number, step)
            except _Undetermined as why:
                return Undetermined(self.taken, str(why))
            except _TooSlow:
                return TooSlow(self.taken)
            except NoAnswer as error:
                lines = [f"no answer: {error}"]
            if lines:
                return Difference(number, step, tuple(lines))
        return Same(self.taken)

    def go_on(self, first: int) -> Result:
        """With that step, from what there is now."""
        views = self.look()
        if lines := self.differences([[], []], views):
            return Difference(first, self.sequence.steps[first], tuple(lines))
        self.view, self.subscriptions = views[0], views[0].subscriptions
        return self.run(first)

    def disconnect(self) -> None:
        for side in self.sides:
            side.drop({pending.number for pending in side.pending})
            side.close()

    def connect(self) -> None:
        for side in self.sides:
            side.connect()

    def end(self) -> None:
        for side in self.sides:
            side.drop({pending.number for pending in side.pending})
            self.pair.clean(side)
        self.pair.check_sides()

    def take(self, number: int, step: Step) -> list[str]:
        if isinstance(step, Await):
            return self.wait()
        if isinstance(step, Pass):
            return self.let_pass()
        asks = [request_of(side, self.sequence, step) for side in self.sides]
        broker_ask, shim_ask = asks
        if broker_ask is None or shim_ask is None:
            assert broker_ask is shim_ask
            return []
        if not self.pair.offered(broker_ask.api.key, broker_ask.version):
            return []
        if self.pair.left_out(self.view, step) or (isinstance(step, DeleteOffsets) and self.subscribes_otherwise()):
            return []
        self.taken += 1
        self.sent_at = time.monotonic()
        parked = self.parked_id()
        answers = self.ask(number, [broker_ask, shim_ask])
        lines = self.settle(answers, self.nothing_expires_until(parked))
        if self.sequence.timing is Timing.SESSION:
            self.hear(answers[0])
        return lines

    def subscribes_otherwise(self) -> bool:
        """Whether a static member has come back to a Stable group with another subscription (docs/differences.md)."""
        return self.view.state == _STABLE and self.view.subscriptions != self.subscriptions

    # -- time

    def parked_id(self) -> str | None:
        """The member id of actor 0 while a request of it is parked: it does not expire then."""
        client = self.broker.by_label[0]
        return str(self.broker.plain(client.member_id)) if self.broker.waits(client) else None

    def hear(self, answers: list[Answer]) -> None:
        """Note when actor 0 was heard of, at the earliest."""
        client = self.broker.by_label[0]
        for answer in answers:
            if answer.ask.client is client and errors_in(answer.response) & _HEARD_OF:
                self.heard_of[str(self.broker.plain(client.member_id))] = self.sent_at

    def nothing_expires_until(self, parked: str | None) -> float | None:
        """The first moment at which something may expire; None when nothing does. `parked`: see `parked_id`."""
        ends = [heard_of + _SHORT_S for member_id, heard_of in self.heard_of.items() if member_id != parked]
        return min([*ends, *([] if self.safe_until is None else [self.safe_until])], default=None)

    def let_pass(self) -> list[str]:
        """See `Pass`. What is waited for is that nothing happens, so there is no event to wait for."""
        if self.sequence.timing is not Timing.SESSION or not self.is_short():
            return []
        parked = self.parked_id()
        heard_of = self.heard_of.get(str(self.broker.plain(self.broker.by_label[0].member_id)))
        if heard_of is None:
            return []
        self.taken += 1
        until = self.sent_at + 2 * _PASSING * _SHORT_S if parked is not None else heard_of + _PASSING * _SHORT_S
        time.sleep(max(0.0, until - time.monotonic()))
        return self.settle([[], []], self.nothing_expires_until(parked))

    def is_short(self) -> bool:
        return self.broker.by_label[0].joined_with_ms[0] == SHORT_MS

    def ask(self, number: int, asks: list[Ask]) -> list[list[Answer]]:
        sent = [side.send(number, ask) for side, ask in zip(self.sides, asks, strict=True)]
        if asks[0].api.key in PARKING:
            for side, pending in zip(self.sides, sent, strict=True):
                side.pending.append(pending)
            return [[], []]
        return [[side.receive(pending)] for side, pending in zip(self.sides, sent, strict=True)]

    # -- what has become of it

    def look(self) -> list[View]:
        """See `running.py` on why three times; a fourth, so that what is seen is not in the midst of a change."""
        offsets = []
        for side in self.sides:
            side.ask_offsets()
        for side in self.sides:
            plain = side.plain(side.see_offsets())
            for group in plain["groups"]:
                sort_fetched(group["topics"])
            offsets.append(plain)
        before = None
        while True:
            for side in self.sides:
                side.ask_group()
            seen = [side.see_group() for side in self.sides]
            if seen == before:
                break
            before = seen
        return [
            View(sort_described(side.plain(group)), fetched)
            for side, group, fetched in zip(self.sides, seen, offsets, strict=True)
        ]

    def settle(self, answers: list[list[Answer]], nothing_expires_until: float | None = None) -> list[str]:
        """Wait until both have nothing more to do, and compare. Raises _TooSlow when something may have expired."""
        give_up_at = time.monotonic() + self.patience_s
        if nothing_expires_until is not None:
            give_up_at = min(give_up_at, nothing_expires_until - _EARLY_S)
        while True:
            views = self.look()
            for side, answered in zip(self.sides, answers, strict=True):
                answered += side.collect()
            lines = self.differences(answers, views)
            if not lines and not any(self.delayed(view) for view in views):
                break
            if time.monotonic() > give_up_at:
                break
            time.sleep(_LOOK_S)  # neither tells when it has nothing more to do
        if nothing_expires_until is not None and time.monotonic() > nothing_expires_until - _MARGIN_S:
            raise _TooSlow
        if lines and self.votes_are_equal(views[0]):
            raise _Undetermined("equal votes")
        self.done(views[0])
        return lines

    def delayed(self, view: View) -> bool:
        """Whether the initial rebalance delay is about to be over."""
        return self.sequence.timing is not Timing.DELAY and view.state == _PREPARING and self.view.state in _FROM_EMPTY

    def done(self, view: View) -> None:
        """Remember what there is now."""
        gone = self.view.members - view.members
        if gone:
            self.left = True
        for member_id in gone:
            self.heard_of.pop(member_id, None)
        if self.sequence.timing is Timing.DELAY:
            if view.state != _PREPARING:
                self.safe_until = None
            elif self.view.state in _FROM_EMPTY:
                self.safe_until = self.sent_at + _SHORT_S
        if (self.view.state, view.state) not in self.pair.transitions:
            self.pair.transitions.add((self.view.state, view.state))
        if view.state == _STABLE and self.view.state != _STABLE:
            self.subscriptions = view.subscriptions
        self.view = view

    def wait(self) -> list[str]:
        """Until something has expired at both, if anything is to."""
        if not self.expects():
            return []
        self.taken += 1
        give_up_at = time.monotonic() + 3 * _SHORT_S
        unchanged_at = [self.unchanged_at] * 2
        changed = [False, False]
        answers: list[list[Answer]] = [[], []]
        while not all(changed):
            now = time.monotonic()
            views = self.look()
            for position, (side, view) in enumerate(zip(self.sides, views, strict=True)):
                answers[position] += side.collect()
                if not changed[position]:
                    changed[position] = bool(answers[position]) or view != self.view
                if not changed[position]:
                    unchanged_at[position] = now
            if now > give_up_at + (self.patience_s if any(changed) else 0):
                break
            time.sleep(_LOOK_S)  # nor when something has expired
        lines = self.settle(answers)
        self.pair.expired += any(changed)
        if not lines and not any(changed):
            # Something that does not show may have begun anew, nobody knows when.
            raise _Undetermined("nothing expired")
        if self.sequence.timing is Timing.REBALANCE:
            self.safe_until = min(unchanged_at) + _SHORT_S
        return lines

    def expects(self) -> bool:
        """Whether something is about to expire that will show."""
        match self.sequence.timing:
            case Timing.NONE:
                return False
            case Timing.SESSION:
                client = self.broker.by_label[0]
                described = {self.broker.plain(client.member_id)} & self.view.members
                return bool(described) and not self.broker.waits(client) and self.is_short()
            case Timing.REBALANCE:
                short = {
                    self.broker.plain(client.member_id)
                    for client in self.broker.clients
                    if client.joined_with_ms[1] == SHORT_MS
                }
                all_short = all(actor.rebalance_timeout_ms == SHORT_MS for actor in self.sequence.actors)
                rebalances = self.view.state in (_PREPARING, "CompletingRebalance")
                return rebalances and (all_short or self.view.members <= short)
            case Timing.DELAY:
                return self.safe_until is not None

    # -- comparing

    def differences(self, answers: list[list[Answer]], views: list[View]) -> list[str]:
        at_broker, at_shim = ({answer.number: answer for answer in each} for each in answers)
        alone = at_shim.keys() - at_broker.keys()
        unanswered = {number for number in alone if never_answered(self.shim, at_shim[number], views[1])}
        for pending in self.broker.pending:
            if pending.number in unanswered:
                learn(pending.ask, at_shim[pending.number].response)
        self.broker.drop(unanswered)
        for number in unanswered:
            answers[1].remove(at_shim.pop(number))
        lines = [
            f"step {number}'s {self.named(at_broker[number])} is answered by the broker alone"
            for number in sorted(at_broker.keys() - at_shim.keys())
        ]
        lines += [
            f"step {number}'s {self.named(at_shim[number])} is answered by the shim alone: "
            f"{comparable(self.shim, at_shim[number])}"
            for number in sorted(at_shim.keys() - at_broker.keys())
        ]
        if lines:
            return lines
        pairs = [(at_broker[number], at_shim[number]) for number in sorted(at_broker)]
        self.check_protocols(pairs)
        lines = self.compared(pairs, views)
        if lines and (leaders := self.free_choice(pairs)):
            self.shim.swap(*leaders)
            by_label = {(self.shim.label_of(at_shim.ask.client), at_shim.ask.api.key): at_shim for _, at_shim in pairs}
            labels = [(self.broker.label_of(at_broker.ask.client), at_broker.ask.api.key) for at_broker, _ in pairs]
            if set(labels) != by_label.keys() or len(labels) != len(by_label):
                raise _Undetermined("another leader")
            pairs = [(at_broker, by_label[label]) for (at_broker, _), label in zip(pairs, labels, strict=True)]
            # From now on the answers of the two belong together so.
            answers[1][:] = [at_shim._replace(number=at_broker.number) for at_broker, at_shim in pairs]
            lines = self.compared(pairs, self.look())
            if lines:
                raise _Undetermined("another leader")
        if not lines:
            self.remember_leader(pairs)
            for answer, _ in pairs:
                self.pair.met(answer)
        return lines

    def compared(self, pairs: list[tuple[Answer, Answer]], views: list[View]) -> list[str]:
        lines = []
        for at_broker, at_shim in pairs:
            found = describe_difference(comparable(self.broker, at_broker), comparable(self.shim, at_shim))
            lines += [f"step {at_broker.number}'s {self.named(at_broker)}{line}" for line in found]
        for field in View._fields:
            lines += describe_difference(getattr(views[0], field), getattr(views[1], field), field)
        return lines

    def named(self, answer: Answer) -> str:
        return f"{answer.ask.api.name} {answer.ask.version}"

    def leader_in(self, side: Side, answer: Answer) -> str | None:
        """The leader that an answered join names."""
        if answer.ask.api is not join_group.API or answer.response.error_code != ErrorCode.NONE:
            return None
        return str(side.plain(answer.response.leader))

    def remember_leader(self, pairs: list[tuple[Answer, Answer]]) -> None:
        for answer, _ in pairs:
            leader = self.leader_in(self.broker, answer)
            if leader is not None:
                self.leader, self.left = leader, False

    def free_choice(self, pairs: list[tuple[Answer, Answer]]) -> tuple[int, int] | None:
        """The labels of the leaders that the two have chosen, when the one before is gone and any member may lead."""
        for pair in pairs:
            leaders = [self.leader_in(side, answer) for side, answer in zip(self.sides, pair, strict=True)]
            if None in leaders or leaders[0] == leaders[1] or self.leader in leaders:
                continue
            if self.leader is None and not self.left:
                continue
            owners = [side.owner_of(answer.response.leader) for side, answer in zip(self.sides, pair, strict=True)]
            labels = [side.label_of(owner) for side, owner in zip(self.sides, owners, strict=True)]
            one, other = labels
            if one is None or other is None or one == other:
                raise _Undetermined("another leader")
            clients = [side.by_label[label] for side in self.sides for label in (one, other)]
            waits = any(side.waits(client) for side in self.sides for client in clients)
            if waits or len({client.kind for client in clients}) > 1:
                raise _Undetermined("another leader")
            return one, other
        return None

    def check_protocols(self, pairs: list[tuple[Answer, Answer]]) -> None:
        """Raises _Undetermined when the votes were equal and each side chose another protocol."""
        # By member, not by who has sent it: one may join under another's member id.
        joined = {
            answer.response.member_id: tuple(protocol.name for protocol in answer.ask.request.protocols)
            for answer, _ in pairs
            if answer.ask.api is join_group.API and answer.response.error_code == ErrorCode.NONE
        }
        for at_broker, at_shim in pairs:
            if self.leader_in(self.broker, at_broker) is None or self.leader_in(self.shim, at_shim) is None:
                continue
            one, other = at_broker.response.protocol_name, at_shim.response.protocol_name
            offers = [joined.get(each.member_id) or self.offered(each.member_id) for each in at_broker.response.members]
            if one != other and {one, other} <= winners([offer for offer in offers if offer]):
                raise _Undetermined("equal votes")

    def offered(self, member_id: str) -> tuple[str, ...]:
        """What a member has offered before; nothing of one whom nobody is."""
        owner = self.broker.owner_of(member_id)
        return owner.offered if owner is not None else ()

    def votes_are_equal(self, view: View) -> bool:
        """Whether more than one protocol may be chosen: then a member that comes back may, or may not, change it."""
        members = [
            client
            for client in self.broker.clients
            # One that comes back without its id is there under an id that it has not been told of yet; one that was
            # fenced with a wrong one has forgotten its own, under which it is still there.
            if self.broker.waits(client)
            or any(self.broker.plain(known) in view.members for known in (client.member_id, *client.old_member_ids))
        ]
        return len(winners([client.protocols for client in members])) > 1
