"""One audit, from the groups to what is shown of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pipeline.audit.asked import Asked
from pipeline.audit.groups import find_groups
from pipeline.audit.outputs import CONTENTS, HTML, Folder, write_tables
from pipeline.audit.report import MOST_DIFFERENCES, MOST_GROUPS, MOST_LEFT_OUT, Shown, page
from pipeline.audit.summary import Totals, differences, differing_groups, left_out, per_group, totals
from pipeline.audit.table import Audit
from pipeline.audit.verdicts import Rules
from pipeline.audit.words import LOG, PLACES, UPSTREAM, ZOOKEEPER, CannotRead, WhereGroup
from pipeline.spark import watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RAISED: Final = re.compile(r"\bCannotRead: (?P<line>.+)")


class Audited(NamedTuple):
    totals: Totals
    groups: Sequence[Mapping[str, Any]]
    differences: Sequence[Mapping[str, Any]]
    left_out: Sequence[Mapping[str, Any]]


def audit(spark: SparkSession, asked: Asked, wheres: Sequence[WhereGroup]) -> Audited:
    """``wheres``: what :func:`find_groups` has found.

    Raises :class:`CannotRead`; :class:`pipeline.errors.NotDone` and :class:`pipeline.errors.SomethingWrong` of what it
    writes.
    """
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    folder = None if asked.to is None else Folder(spark, asked.to)
    rules = Rules([each for each in PLACES if each != ZOOKEEPER or asked.addresses.zookeeper], asked.mirror)
    shows: Callable[[str], AbstractContextManager[object]] = partial(watching, spark)
    try:
        auditing = Audit(spark, asked.addresses, rules, asked.second_look_seconds, shows)
        table = auditing.table(wheres, partial(find_groups, asked))
        with shows("summing up"):
            groups = per_group(table).persist()
            found = Audited(
                totals(table, groups, len(wheres)),
                differing_groups(groups, MOST_GROUPS),
                differences(table, MOST_DIFFERENCES),
                left_out(table, auditing.where(wheres), rules, MOST_LEFT_OUT),
            )
    except Exception as error:
        raise _in_words(error) from error
    if folder is not None:
        with shows(f"writing {folder.to}"), folder.filling() as staging:
            write_tables(staging, asked.formats, table, groups)
            if HTML in asked.formats:
                folder.write_text(f"{staging}/report.html", page(_shown(asked, began, found)))
    return found


def _shown(asked: Asked, began: str, found: Audited) -> Shown:
    addresses = asked.addresses
    sources = {LOG: ",".join(map(str, addresses.shim)), UPSTREAM: ",".join(map(str, addresses.upstream))}
    if addresses.zookeeper:
        sources = {ZOOKEEPER: addresses.zookeeper, **sources}
    outputs = {name: what for each in CONTENTS if each in asked.formats for name, what in CONTENTS[each].items()}
    outputs.pop("report.html", None)
    return Shown(began, sources, *found, outputs, asked.second_look_seconds)


def _in_words(error: Exception) -> Exception:
    """A task's own line, where it was one: Spark gives it with the stack of its worker, and of the JVM."""
    lines = _RAISED.findall(str(error))
    return CannotRead(lines[-1].strip()) if lines else error
