"""Values as they were written, or as the structs of a schema file; and what becomes of those that do not fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pipeline.errors import NotDone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Form: TypeAlias = Literal["raw", "json", "avro"]
WhenBad: TypeAlias = Literal["fail", "null"]

_CORRUPT: Final = "_corrupt_record"
_FIELD: Final = "value"


@dataclass(frozen=True)
class Values:
    """``schema``: the text of the schema file, None for raw values. ``when_bad``: ``null`` keeps the bytes of a value
    that does not fit in the column ``bad_value``."""

    form: Form = "raw"
    schema: str | None = None
    when_bad: WhenBad = "fail"


def read_values(form: Form, schema_file: Path | None, when_bad: WhenBad) -> Values:
    """Raises NotDone for a schema file that is missing, or not asked for; OSError for one that cannot be read."""
    if (form == "raw") != (schema_file is None):
        raise NotDone("--schema goes with --value json or avro, and they with it")
    return Values(form, schema_file.read_text(encoding="utf-8") if schema_file else None, when_bad)


def with_values(frame: DataFrame, values: Values) -> DataFrame:
    """``frame`` has the columns of Spark's Kafka source; its ``value`` is parsed. Raises NotDone for a bad schema."""
    if values.form == "raw":
        return frame
    assert values.schema is not None, "checked when it was read"
    parsed, good, fits = (_json if values.form == "json" else _avro)(values.schema)
    return _judged(frame.withColumn("_parsed", parsed), good, fits, values.when_bad)


def _judged(frame: DataFrame, good: Column, fits: Column, when_bad: WhenBad) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    bad = F.col(_FIELD).isNotNull() & ~fits
    if when_bad == "null":
        judged = frame.withColumn("bad_value", F.when(bad, F.col(_FIELD)))
        return judged.withColumn(_FIELD, F.when(~bad, good)).drop("_parsed")
    where = F.concat_ws("", F.lit("the value of "), "topic", F.lit("-"), "partition", F.lit(" at offset "), "offset")
    error = F.raise_error(F.concat(where, F.lit(" does not fit the schema")))
    return frame.withColumn(_FIELD, F.when(bad, error).otherwise(good)).drop("_parsed")


def _json(schema: str) -> tuple[Column, Column, Column]:
    """What is parsed, as ``_parsed``; the value in it; whether it fits.

    Text that is no UTF-8, or no JSON, or has a field of another type, does not fit; a field that is missing is null,
    and one that the schema does not have is left out."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    wanted = json_schema(schema)
    if _CORRUPT in wanted.fieldNames():
        raise NotDone(f"--schema: {_CORRUPT} cannot be a field's name")
    marked = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
    text = F.try_validate_utf8(F.col(_FIELD).cast("string"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    fits = F.col("_parsed").isNotNull() & F.col(f"_parsed.{_CORRUPT}").isNull()
    return F.from_json(text, marked, options), F.col("_parsed").dropFields(_CORRUPT), fits


def json_schema(text: str) -> StructType:
    """Of Spark's DDL (``id BIGINT, name STRING``) or of Spark's JSON form of it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(json.loads(text))
        found = StructType.fromDDL(text)
    except (PySparkException, Py4JError, ValueError, KeyError, TypeError) as error:
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise NotDone(f"--schema is neither DDL nor JSON of a Spark struct: {reason}") from error
    if not isinstance(found, StructType):
        raise NotDone(f"--schema is no struct but {found.simpleString()}")
    return found


def _avro(schema: str) -> tuple[Column, Column, Column]:
    """Read as the only field of a record, which has the same bytes: of one that does not fit that field alone is null,
    where Spark would else give a struct of nulls."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro

    fields = [{"name": _FIELD, "type": avro_schema(schema)}]
    wrapped = {"type": "record", "name": "OffsetPipelineValue", "fields": fields}
    parsed = from_avro(F.col(_FIELD), json.dumps(wrapped), {"mode": "PERMISSIVE"})
    return parsed, F.col("_parsed.value"), F.col("_parsed.value").isNotNull()


def avro_schema(text: str) -> Any:
    """As JSON. Raises NotDone for none, and for one in which null is a value: it could not be told from a bad one."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise NotDone(f"--schema is no Avro schema: {error}") from error
    if schema == "null" or (isinstance(schema, list) and "null" in schema):
        raise NotDone("--schema: null cannot be a value of its own; records without a value have none to parse")
    return schema
