"""What is asked of a real ZooKeeper, and what it answers."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from shim.config import ConnectString, HostPort, SettingError, parse_connect_string
from shim.demo.parts import ZooKeeper
from shim.offsets.zookeeper import many
from shim.offsets.zookeeper.ensemble import JUTE_MAXBUFFER, Ensemble
from shim.offsets.zookeeper.znodes import (
    Acl,
    Check,
    ChrootMissing,
    Create,
    Delete,
    EnsembleError,
    EnsembleRefused,
    EnsembleUnavailable,
    MultiFailed,
    NoZnode,
    Operation,
    Set,
    TooLarge,
    WrongVersion,
    ZnodeExists,
    ZnodeHasChildren,
)
from tests.offsets.conftest import TIMEOUT_S, kazoo


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1", ConnectString((HostPort("h", 1),), "")),
        ("h:1/", ConnectString((HostPort("h", 1),), "")),
        ("a:1,b:2/kafka", ConnectString((HostPort("a", 1), HostPort("b", 2)), "/kafka")),
        (" [::1]:2181/a/b/ ", ConnectString((HostPort("::1", 2181),), "/a/b")),
    ],
)
def test_connect_strings(text: str, expected: ConnectString) -> None:
    assert parse_connect_string(text) == expected


@pytest.mark.parametrize("text", ["", "h", "/a", "h:x", "h:1//a", "h:1/a//b", "h:1/.", "h:1/a/..", "h:1/a\0"])
def test_what_is_no_connect_string(text: str) -> None:
    with pytest.raises(SettingError):
        Ensemble(text)


async def test_a_znode(ensemble: Ensemble) -> None:
    assert await ensemble.get("/z") is None
    await ensemble.create("/z", b"one")
    first = await ensemble.get("/z")
    assert first is not None
    assert (first.data, first.version, first.ephemeral_owner) == (b"one", 0, 0)
    assert await ensemble.set("/z", b"two", version=0) == 1
    second = await ensemble.get("/z")
    assert second is not None
    assert (second.data, second.version) == (b"two", 1)
    assert second.mzxid > first.mzxid
    await ensemble.delete("/z", version=1)
    assert await ensemble.get("/z") is None


async def test_children(ensemble: Ensemble) -> None:
    assert await ensemble.children("/") == []
    await ensemble.make_path("/a/b")
    await ensemble.make_path("/a/c")
    assert sorted(await ensemble.children("/a")) == ["b", "c"]
    assert await ensemble.children("/a/b") == []
    assert await ensemble.children("/none") == []
    assert await ensemble.children_many(["/a/b", "/none", "/"]) == [[], [], ["a"]]


async def test_what_znodes_do_not_let_happen(ensemble: Ensemble) -> None:
    await ensemble.make_path("/a/b")
    with pytest.raises(ZnodeExists, match="/a/b: the znode exists"):
        await ensemble.create("/a/b")
    with pytest.raises(NoZnode):
        await ensemble.create("/none/b")
    with pytest.raises(NoZnode):
        await ensemble.set("/none", b"")
    with pytest.raises(NoZnode):
        await ensemble.delete("/none")
    with pytest.raises(WrongVersion):
        await ensemble.set("/a/b", b"", version=3)
    with pytest.raises(WrongVersion):
        await ensemble.delete("/a/b", version=3)
    with pytest.raises(ZnodeHasChildren):
        await ensemble.delete("/a")
    await ensemble.create("/e", ephemeral=True)
    with pytest.raises(EnsembleError, match="NoChildrenForEphemerals"):
        await ensemble.create("/e/child")


async def test_a_multi_does_all(ensemble: Ensemble) -> None:
    for name in ("set", "delete", "check"):
        await ensemble.create(f"/{name}", b"old")
    operations: list[Operation] = [
        Create("/new", b"1"),
        Set("/new", b"2"),
        Set("/set", b"3", version=0),
        Delete("/delete"),
        Check("/check", version=0),
        Create("/ephemeral", ephemeral=True),
    ]
    assert await ensemble.multi(operations) == [0, 1, 1, None, None, 0]
    found = await ensemble.get_many(["/new", "/set", "/delete", "/check", "/ephemeral"])
    assert [each and each.data for each in found] == [b"2", b"3", None, b"old", b""]
    assert found[4] is not None
    assert found[4].ephemeral_owner == ensemble.session_id
    assert await ensemble.multi([]) == []


@pytest.mark.parametrize(
    ("impossible", "reason"),
    [
        (Create("/there"), ZnodeExists),
        (Create("/none/x"), NoZnode),
        (Set("/none", b""), NoZnode),
        (Set("/there", b"", version=7), WrongVersion),
        (Delete("/none"), NoZnode),
        (Delete("/parent"), ZnodeHasChildren),
        (Check("/there", version=7), WrongVersion),
        (Check("/none"), NoZnode),
    ],
)
async def test_or_nothing_and_says_why(ensemble: Ensemble, impossible: Operation, reason: type[EnsembleError]) -> None:
    await ensemble.create("/there", b"old")
    await ensemble.make_path("/parent/child")
    with pytest.raises(MultiFailed) as raised:
        await ensemble.multi([Set("/there", b"new"), Create("/new"), impossible, Delete("/parent/child")])
    assert (raised.value.index, raised.value.operation) == (2, impossible)
    assert type(raised.value.reason) is reason
    there, new, child = await ensemble.get_many(["/there", "/new", "/parent/child"])
    assert there is not None
    assert (there.data, new) == (b"old", None)
    assert child is not None


async def test_many_are_read_in_order(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    await ensemble.multi([Create(f"/{number}", b"%d" % number) for number in range(0, 1000, 2)])
    paths = [f"/{number}" for number in range(1000)]
    expected = [b"%d" % number if number % 2 == 0 else None for number in range(1000)]
    for at_once in (1, 7, 256, 5000):
        monkeypatch.setattr(many, "MOST_UNDER_WAY", at_once)
        assert [each and each.data for each in await ensemble.get_many(paths)] == expected


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/\ud800"])
async def test_what_is_no_path(ensemble: Ensemble, path: str) -> None:
    with pytest.raises(ValueError, match=r"path|surrogates"):
        await ensemble.get(path)
    with pytest.raises(ValueError, match=r"path|surrogates"):
        await ensemble.create(path)
    with pytest.raises(ValueError, match=r"path|surrogates"):
        await ensemble.multi([Create(path)])
    assert await ensemble.children("/") == []


async def test_all_is_below_the_chroot(zookeeper: ZooKeeper, ensemble: Ensemble, connect: str) -> None:
    chroot = connect.partition("/")[2]
    await ensemble.make_path("/a/b")
    await ensemble.set("/a/b", b"below")
    with kazoo(zookeeper.connect_string) as client:
        assert client.get(f"/{chroot}/a/b")[0] == b"below"
    await ensemble.sync()
    assert await ensemble.get("/") is not None


async def test_a_chroot_that_is_not_there(connect: str) -> None:
    ensemble = Ensemble(f"{connect}/b/c")
    with pytest.raises(ChrootMissing, match=r"ZooKeeper at .* has no znode /.*/b/c"):
        await ensemble.start(TIMEOUT_S)
    with pytest.raises(EnsembleUnavailable, match="there is no session"):
        await ensemble.get("/")
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    await ensemble.create("/z")
    await ensemble.close()
    await ensemble.start(TIMEOUT_S)
    assert await ensemble.children("/") == ["z"]
    await ensemble.close()


async def test_znodes_of_the_world_and_of_their_creator(connect: str, ensemble: Ensemble) -> None:
    of_ann = Ensemble(connect, auth=("ann", "secret"), acl=Acl.CREATOR)
    await of_ann.start(TIMEOUT_S)
    await of_ann.create("/anns", b"1")
    await of_ann.multi([Create("/anns2", b"2")])
    await ensemble.create("/all")
    for path in ("/anns", "/anns2"):
        with pytest.raises(EnsembleRefused, match=f"{path}: ZooKeeper does not allow it"):
            await ensemble.get(path)
        with pytest.raises(EnsembleRefused):
            await ensemble.set(path, b"x")
        with pytest.raises(MultiFailed) as raised:
            await ensemble.multi([Set("/all", b"x"), Set(path, b"x")])
        assert isinstance(raised.value.reason, EnsembleRefused)
    await of_ann.close()
    again = Ensemble(connect, auth=("ann", "secret"))
    await again.start(TIMEOUT_S)
    found = await again.get_many(["/anns", "/anns2", "/all"])
    assert [each and each.data for each in found] == [b"1", b"2", b""]
    await again.close()
    someone = Ensemble(connect, auth=("ann", "guessed"))
    await someone.start(TIMEOUT_S)
    with pytest.raises(EnsembleRefused):
        await someone.get("/anns")
    await someone.close()


def test_a_creator_says_who_it_is() -> None:
    with pytest.raises(ValueError, match="creator"):
        Ensemble("h:1", acl=Acl.CREATOR)


async def test_what_zookeeper_would_not_read_is_not_sent(ensemble: Ensemble, others: KazooClient) -> None:
    session = ensemble.session_id
    with pytest.raises(TooLarge, match="ZooKeeper takes 1048575"):
        await ensemble.create("/z", bytes(JUTE_MAXBUFFER))
    await ensemble.create("/z")
    with pytest.raises(TooLarge):
        await ensemble.set("/z", bytes(JUTE_MAXBUFFER))
    with pytest.raises(TooLarge):
        await ensemble.multi([Set("/z", bytes(1000))] * 1000)
    assert ensemble.session_id == session
    assert others.get("/z")[1].version == 0


async def test_what_is_sent_it_reads(ensemble: Ensemble) -> None:
    """As many operations as there is room for by our count of bytes."""
    operation = Create("/000000", b"")
    count = JUTE_MAXBUFFER // ensemble.size_of(operation)
    await ensemble.multi([Create(f"/{number:06}") for number in range(count)])
    assert len(await ensemble.children("/")) == count
    largest = b"x" * (JUTE_MAXBUFFER - ensemble.size_of(operation))
    await ensemble.set("/000000", largest)
    found = await ensemble.get("/000000")
    assert found is not None
    assert found.data == largest
