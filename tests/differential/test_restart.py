"""What both have kept over a restart in the midst of everything: members, generations, assignments and offsets."""

from collections import Counter
from pathlib import Path

from protocol.errors import ErrorCode
from tests.differential.generating import sequence_of
from tests.differential.pair import USUAL, Pair, in_order_broker
from tests.differential.running import Difference, Same, run_around
from tests.differential.steps import Timing
from tests.shim_process import Shim

FIRST = 5_000
SEQUENCES = 30
LOST = {ErrorCode.UNKNOWN_MEMBER_ID.name, ErrorCode.ILLEGAL_GENERATION.name}
"""What honest clients meet after it, whose generation had no assignment yet."""


def test_the_same_after_a_restart(tmp_path: Path) -> None:
    settings: dict[str, str | int] = {**USUAL, "offsets.mirror.upstream": "false"}
    with (
        in_order_broker(tmp_path, USUAL) as broker,
        Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim,
    ):
        both = Pair(broker, shim)

        def restart() -> None:
            both.close()
            shim.kill()
            broker.kill()
            broker.start()
            both.broker.connect()
            both.wait_for_broker()
            shim.start()
            both.shim.connect()
            both.answers.clear()

        sequences = [sequence_of(seed, both.at_broker, Timing.NONE) for seed in range(FIRST, FIRST + SEQUENCES)]
        results = run_around(both, sequences, restart)
        met = {ErrorCode(error).name for _, _, error in both.answers}
        both.close()
    differences = [f"seed {FIRST + n}: {each}" for n, each in enumerate(results) if isinstance(each, Difference)]
    assert not differences, "\n\n".join(differences)
    assert Counter(map(type, results))[Same] >= SEQUENCES * 9 // 10, results
    assert met >= LOST, met
