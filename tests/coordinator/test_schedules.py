"""Random schedules of up to four members, dynamic and static, old and new: what must hold after every step.

- Every request is answered exactly once, and none waits for ever.
- The leader of a generation is one of its members; a generation never falls; members of a generation agree on it.
- A commit is accepted only from a member of the present generation, or from outside while the group is empty.
- Offsets go only by a later commit, by being deleted, or by expiring: never those that a group with members reads.
- The records alone make the state that is running, at every moment; killing the coordinator loses nothing of it.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupResponse
from shim.coordinator import CoordinatorSettings
from shim.coordinator.state.group import GroupState
from tests.examples import examples

from .driving import SUBSCRIPTION, Driven, parked, subscription
from .durable import assert_same, reloaded

SETTINGS = CoordinatorSettings(group_max_size=3, group_initial_rebalance_delay_ms=3_000, offsets_retention_minutes=1)
RETENTION_MS = 60_000
PROTOCOLS = (
    (("range", SUBSCRIPTION),),
    (("range", subscription("orders", "payments")),),
    (("sticky", SUBSCRIPTION), ("range", SUBSCRIPTION)),
    (("sticky", SUBSCRIPTION),),
    (("range", b"\x00\x00\xff\xff\xff\xff"),),
)
CONSUMERS = st.integers(0, 3)
GROUPS = st.sampled_from(["g", "g", "g", "h"])
TOPICS = ("orders", "payments", "others")


class Consumer:
    """What one client believes of itself."""

    def __init__(self, number: int) -> None:
        # 0 and 1 are dynamic (1 of an old version), 2 and 3 static, sharing one instance id.
        self.version = (9, 3, 9, 7)[number]
        self.instance = (None, None, "i", "i")[number]
        self.member_id = ""
        self.generation = -1
        self.leads: tuple[str, ...] = ()
        self.has_assignment = False
        self.join: int | None = None
        self.sync: int | None = None

    def forget(self) -> None:
        """Out of the group: the next join is that of somebody new."""
        self.member_id, self.generation, self.leads, self.has_assignment = "", -1, (), False

    def rejoin(self) -> None:
        self.generation, self.leads, self.has_assignment = -1, (), False


class Schedule(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.d = Driven(SETTINGS)
        self.consumers = {(group, n): Consumer(n) for group in ("g", "h") for n in range(4)}
        self.generations: dict[str, int] = {}
        self.leaders: dict[tuple[str, int], str] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.killed: set[int] = set()
        self.offset = 0

    # -- what clients do

    @rule(group=GROUPS, n=CONSUMERS, protocols=st.sampled_from(PROTOCOLS), session=st.sampled_from([6_000, 30_000]))
    def join(self, group: str, n: int, protocols: tuple[tuple[str, bytes], ...], session: int) -> None:
        c = self.consumers[group, n]
        c.join = self.d.ask_join(
            c.member_id,
            group=group,
            instance=c.instance,
            version=c.version,
            protocols=protocols,
            session=session,
            rebalance=20_000,
        )
        self.listen()

    @rule(group=GROUPS, n=CONSUMERS)
    def restart_client(self, group: str, n: int) -> None:
        self.consumers[group, n] = Consumer(n)

    @rule(group=GROUPS, n=CONSUMERS)
    def sync(self, group: str, n: int) -> None:
        c = self.consumers[group, n]
        c.sync = self.d.ask_sync(
            c.member_id,
            c.generation,
            {member_id: b"for " + member_id.encode() for member_id in c.leads},
            group=group,
            instance=c.instance,
            version=3,
        )
        self.listen()

    @rule(group=GROUPS, n=CONSUMERS, lag=st.integers(0, 1))
    def heartbeat(self, group: str, n: int, lag: int) -> None:
        self.beat(group, self.consumers[group, n], lag)

    def beat(self, group: str, c: Consumer, lag: int) -> int:
        live = self.d.coordinator._state.groups.get(group)
        error = self.d.heartbeat(c.member_id, c.generation - lag, group=group, instance=c.instance)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            assert live is not None
            assert c.member_id in live.members
            assert c.generation - lag == live.generation_id
        return error

    @rule(group=GROUPS, n=CONSUMERS, by_instance=st.booleans())
    def leave(self, group: str, n: int, by_instance: bool) -> None:
        c = self.consumers[group, n]
        member_id = "" if by_instance else c.member_id
        answer = self.d.leave(MemberIdentity(member_id=member_id, group_instance_id=c.instance), group=group)
        if answer.members[0].error_code == ErrorCode.NONE:
            c.forget()

    @rule(group=GROUPS, n=CONSUMERS, lag=st.integers(0, 1), topic=st.sampled_from(TOPICS), partition=st.integers(0, 2))
    def commit(self, group: str, n: int, lag: int, topic: str, partition: int) -> None:
        c = self.consumers[group, n]
        self.write(group, c.member_id, c.generation - lag, c.instance, topic, partition)

    @rule(group=GROUPS, topic=st.sampled_from(TOPICS), partition=st.integers(0, 2))
    def commit_from_outside(self, group: str, topic: str, partition: int) -> None:
        self.write(group, "", -1, None, topic, partition)

    def write(
        self, group: str, member_id: str, generation: int, instance: str | None, topic: str, partition: int
    ) -> None:
        self.offset += 1
        live = self.d.coordinator._state.groups.get(group)
        state = live.state if live is not None else GroupState.EMPTY
        members = set(live.members) if live is not None else set()
        current = live.generation_id if live is not None else 0
        error = self.d.commit_error(
            member_id, generation, [(topic, partition, self.offset)], group=group, instance=instance
        )
        if error == ErrorCode.NONE:
            self.committed[group, topic, partition] = self.offset
            if generation < 0:
                assert state is GroupState.EMPTY
            else:
                assert member_id in members
                assert generation == current
                assert state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE)

    # -- what makes offsets go

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        live = self.d.coordinator._state.groups.get(group)
        state = live.state if live is not None else GroupState.DEAD
        error = self.d.delete_group(group)
        expected = {GroupState.DEAD: ErrorCode.GROUP_ID_NOT_FOUND, GroupState.EMPTY: ErrorCode.NONE}
        assert error == expected.get(state, ErrorCode.NON_EMPTY_GROUP)
        if error == ErrorCode.NONE:
            assert group not in self.d.coordinator._state.groups
            self.forget_group(group)
            self.committed = {at: offset for at, offset in self.committed.items() if at[0] != group}

    @rule(group=GROUPS, topic=st.sampled_from(TOPICS), partition=st.integers(0, 2))
    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        live = self.d.coordinator._state.groups.get(group)
        errors = self.d.delete_offset_errors((topic, [partition]), group=group)
        if errors == [[ErrorCode.NONE]]:
            assert live is not None
            assert live.state is not GroupState.STABLE or topic not in self.read_by(group)
            self.committed.pop((group, topic, partition), None)

    @rule()
    def look_for_expired_offsets(self) -> None:
        state, now = self.d.coordinator._state, self.d.now
        expired = set()
        for group, topic, partition in self.committed:
            live = state.groups[group]
            found = state.offsets.committed.get(group, topic, partition)
            assert found is not None
            if live.state is GroupState.EMPTY and live.protocol_type is not None:
                since = max(live.state_timestamp, found.commit_timestamp)
            elif live.state is GroupState.EMPTY or (
                live.state is GroupState.STABLE and topic not in self.read_by(group)
            ):
                since = found.commit_timestamp
            else:
                continue
            if now - since >= RETENTION_MS:
                expired.add((group, topic, partition))
        looked = self.d.check_retention()
        assert looked.offsets == len(expired)
        self.committed = {at: offset for at, offset in self.committed.items() if at not in expired}
        for group in ("g", "h"):
            if group not in state.groups:
                self.forget_group(group)
            else:
                assert state.groups[group].state is not GroupState.EMPTY or any(at[0] == group for at in self.committed)

    def read_by(self, group: str) -> set[str]:
        """What the members of the Stable group subscribe to: all of them to orders, some to payments, too; or, with a
        subscription that nobody understands, who knows what."""
        live = self.d.coordinator._state.groups[group]
        subscribed = {member.metadata(live.protocol_name) for member in live.members.values()}
        if not subscribed <= {SUBSCRIPTION, subscription("orders", "payments")}:
            return set(TOPICS)
        return {"orders"} if subscribed == {SUBSCRIPTION} else {"orders", "payments"}

    def forget_group(self, group: str) -> None:
        """It begins anew, from generation 0 on."""
        self.generations.pop(group, None)
        self.leaders = {at: leader for at, leader in self.leaders.items() if at[0] != group}

    # -- what well-behaved clients do, all together: the way to a Stable group

    @rule(group=GROUPS, rounds=st.integers(1, 6), who=st.sets(CONSUMERS, min_size=1), offered=st.integers(0, 2))
    def behave(self, group: str, rounds: int, who: set[int], offered: int) -> None:
        for _ in range(rounds):
            for n in sorted(who):
                c = self.consumers[group, n]
                if c.join is not None or c.sync is not None:
                    continue
                if c.generation < 0:
                    self.join(group, n, PROTOCOLS[offered], 30_000)
                elif not c.has_assignment:
                    self.sync(group, n)
                elif (error := self.beat(group, c, 0)) == ErrorCode.REBALANCE_IN_PROGRESS:
                    c.rejoin()
                elif error != ErrorCode.NONE:
                    c.forget()
            self.d.advance(3_000)
            self.listen()

    @rule(member=CONSUMERS, topic=st.sampled_from(TOPICS))
    def live_idly(self, member: int, topic: str) -> None:
        """They share the group, commit once, and then do nothing but heartbeat, for longer than offsets are kept."""
        self.behave("g", 4, {member}, 0)
        self.commit("g", member, 0, topic, 0)
        for _ in range(RETENTION_MS // 5_000 + 1):
            for (group, _), c in self.consumers.items():
                if c.has_assignment and self.beat(group, c, 0) != ErrorCode.NONE:
                    c.rejoin()
            self.d.advance(5_000)
        self.listen()
        self.look_for_expired_offsets()

    # -- what happens besides

    @rule(ms=st.sampled_from([1, 1_000, 3_000, 6_000, 20_000, 60_000]))
    def pass_time(self, ms: int) -> None:
        self.d.advance(ms)
        self.listen()

    @precondition(lambda self: self.d.records)
    @rule()
    def kill(self) -> None:
        self.listen()  # what was answered was heard: it tells of generations that the next coordinator may not know
        left = parked(self.d.coordinator)
        waiting = set(range(1, self.d.last + 1)) - set(self.d.answers) - self.killed
        assert len(left) == len(waiting)
        assert set(left) == waiting
        self.killed |= waiting
        for c in self.consumers.values():
            c.join = None if c.join in waiting else c.join
            c.sync = None if c.sync in waiting else c.sync
        # Generations that never got as far as an assignment are forgotten, as on a broker that fails over.
        self.d.restart()
        self.generations = {g: group.generation_id for g, group in self.d.coordinator._state.groups.items()}
        self.leaders.clear()

    def listen(self) -> None:
        """Let every client hear the answers to it."""
        for (group, _), c in self.consumers.items():
            if c.join in self.d.answers:
                self.hear_join(group, c, self.d.answer(c.join, JoinGroupResponse))
                c.join = None
            if c.sync in self.d.answers:
                answer = self.d.answer(c.sync, SyncGroupResponse)
                if answer.error_code == ErrorCode.NONE:
                    c.has_assignment = True
                    # A static member that has been replaced leaves its assignment behind.
                    mine = b"for " + c.member_id.encode()
                    assert answer.assignment in (b"", mine) or c.instance is not None
                else:
                    c.rejoin()
                c.sync = None

    def hear_join(self, group: str, c: Consumer, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            c.member_id = answer.member_id
        elif answer.error_code == ErrorCode.NONE:
            c.member_id, c.generation = answer.member_id, answer.generation_id
            c.leads = tuple(member.member_id for member in answer.members)
            assert not c.leads or answer.leader in c.leads
            # A static member that comes back before version 9 is shown the old leader on purpose.
            if c.instance is None:
                assert self.leaders.setdefault((group, answer.generation_id), answer.leader) == answer.leader or (
                    answer.leader in self.d.coordinator._state.groups[group].members
                )
        elif answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            c.forget()
        else:
            c.rejoin()

    # -- what must hold

    @invariant()
    def generations_never_fall_and_leaders_are_members(self) -> None:
        for group_id, group in self.d.coordinator._state.groups.items():
            assert group.generation_id >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation_id
            assert (group.leader in group.members) if group.members else group.leader is None
            assert (group.state is GroupState.EMPTY) <= (not group.members)
            assert group.parked_joins <= SETTINGS.group_max_size
            assert group.parked_joins == sum(m.join is not None for m in group.members.values())
            assert set(group.static_members.values()) == {
                m.member_id for m in group.members.values() if m.group_instance_id is not None
            }
            assert not (group.pending_joins.keys() & group.members.keys())
            if group.state is GroupState.STABLE:
                assert not any(m.join or m.sync for m in group.members.values())

    @invariant()
    def memory_is_what_the_groups_take(self) -> None:
        state = self.d.coordinator._state
        for group_id, group in state.groups.items():
            counted = group.size
            group.count(state.recorded[group_id])
            assert group.size == counted
        assert state.memory.used == state.memory._memory.used == sum(group.size for group in state.groups.values())

    @invariant()
    def offsets_are_those_accepted_last(self) -> None:
        for (group, topic, partition), offset in self.committed.items():
            assert self.d.fetch(topic, partition, group=group).committed_offset == offset

    @invariant()
    def no_other_offsets_are_there(self) -> None:
        assert len(self.d.coordinator._state.offsets.committed) == len(self.committed)

    @invariant()
    def every_request_is_answered_or_parked(self) -> None:
        waiting = set(range(1, self.d.last + 1)) - set(self.d.answers) - self.killed
        assert set(parked(self.d.coordinator)) == waiting

    @invariant()
    def records_make_the_running_state(self) -> None:
        assert_same(self.d.coordinator, reloaded(self.d.records, SETTINGS))

    def teardown(self) -> None:
        self.d.advance(3_600_000)  # nobody does anything any more
        assert parked(self.d.coordinator) == []
        assert self.d.coordinator.next_deadline() is None
        assert {g.state for g in self.d.coordinator._state.groups.values()} <= {GroupState.EMPTY}
        assert_same(self.d.coordinator, reloaded(self.d.records, SETTINGS))
        self.every_request_is_answered_or_parked()


Schedule.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestSchedule = Schedule.TestCase


class LongSchedule(Schedule):
    pass


LongSchedule.TestCase.settings = settings(max_examples=5_000, stateful_step_count=60, deadline=None)
TestLongSchedule = pytest.mark.soak(LongSchedule.TestCase)
