"""How the parts' Java programs are started: one small JVM each."""

from collections.abc import Sequence
from pathlib import Path

from shim.demo.parts.archive import archive_path
from shim.demo.parts.jars import JarSet, java_executable

_LOG4J = Path(__file__).with_name("log4j2.properties")

# Serial collector and first-tier compiler: least memory and least start-up work, for processes that live for minutes.
_SMALL = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    # The JVM's own words (of a class data archive that does not fit, for one) stay out of what a tool prints.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "-Dfile.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
    "-Dsun.stderr.encoding=UTF-8",
)


def java_command(
    jars: JarSet,
    main_class: str,
    *args: str,
    heap_mb: int,
    log_level: str = "WARN",
    record_archive: Path | None = None,
    jvm_options: Sequence[str] = (),
) -> list[str]:
    """The argument list that runs `main_class` of a jar set, with its class data archive if there is one.

    `heap_mb`: the largest heap, in MiB. `log_level`: of log4j's root logger, on standard error. `record_archive`: write
    a class data archive there at exit. `jvm_options` come last, so that they win. Raises
    PartsUnavailable when there is no Java.
    """
    java = java_executable()
    archive = archive_path(jars, java)
    if record_archive:
        sharing = [f"-XX:ArchiveClassesAtExit={record_archive}"]
    elif archive.exists():
        sharing = [f"-XX:SharedArchiveFile={archive}"]
    else:
        sharing = []
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        *_SMALL,
        *sharing,
        *jvm_options,
        f"-Dlog4j2.configurationFile={_LOG4J}",
        f"-Dparts.log.level={log_level}",
        "-cp",
        jars.class_path,
        main_class,
        *args,
    ]
