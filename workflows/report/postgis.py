"""A report as a table of a PostGIS database, written in one transaction; no password in any message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import asyncpg
import pyarrow as pa
import pyproj
import shapely

from tiling import transformer
from workflows.errors import OptionInvalid, OutputExists, OutputNotWritable
from workflows.report.change import Change, feature_of
from workflows.report.formats import storable
from workflows.report.geojson import CRS
from workflows.report.parquet import GEOMETRY, REPORT_SCHEMA, change_row
from workflows.report.record import Run, grid_crs

TABLE = "changes"
# Bytes of a name; the server cuts longer ones off.
_LONGEST = 63
# Seconds until a server must have answered.
_PATIENCE = 30
_KINDS = {
    pa.string(): "text",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.list_(pa.string()): "text[]",
}
_COLUMNS = {name: _KINDS[REPORT_SCHEMA.field(name).type] for name in REPORT_SCHEMA.names[:-2]}
_HELP = (
    "write it as postgresql://USER@HOST:PORT/DATABASE?table=NAME, signs of a password encoded (%40 for @), "
    "or leave the password to ~/.pgpass"
)


@dataclass(frozen=True)
class Database:
    """Where a table goes.

    Attributes:
        address: of the database, without the table; it may hold a password.
        shown: the same for messages, without user and password, with the table.
        schema, table: None: the schema that the database takes by itself.
        secrets: what no message may have in it.
    """

    address: str = field(repr=False)
    shown: str
    schema: str | None
    table: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, text: str) -> Database:
        """Read ``postgresql://user@host/database?table=schema.name``; the table is ``changes`` by default.

        Raises:
            OptionInvalid: this is no address that every program reads alike. The message does not repeat it:
                nobody can know what of it is a password.
        """
        try:
            parts = urlsplit(text)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            query = dict(given)
            clear = len(query) == len(given) and _is_clear(text, parts)
        except ValueError:
            clear = False
        if not clear:
            raise OptionInvalid(f"OUT: this address of a database is not clear; {_HELP}") from None
        name = query.pop("table", TABLE)
        schema, dot, table = name.rpartition(".")
        names = [schema, table] if dot else [table]
        if not all(one and one.isprintable() and len(one.encode()) <= _LONGEST for one in names):
            raise OptionInvalid(
                f"OUT: no table can have the name {name[:80]!r}; give ?table=NAME, or SCHEMA.NAME"
            )
        database = unquote(parts.path.removeprefix("/"))
        place = f"{parts.netloc.rpartition('@')[2]}/{database}"
        word = parts.password or ""
        secrets = [unquote(word), word, *(value for key, value in query.items() if "password" in key)]
        return cls(
            parts._replace(query=urlencode(query, quote_via=quote)).geturl(),
            f"postgresql://{place}, table {name}",
            schema or None,
            table,
            tuple(filter(None, secrets)),
        )

    def write(self, changes: Sequence[Change], run: Run, *, overwrite: bool = False) -> None:
        """Write the changes, as attributes and multipolygons in the CRS of the grid that was worked on.

        The run record is the table's comment. All of it is there at the end, or nothing of it.

        Raises:
            OutputExists: the table is there, and may not be replaced.
            OutputNotWritable: the server cannot be reached, or refuses; the message has its words.
        """
        try:
            asyncio.run(self._write(changes, run, overwrite))
        except (OSError, UnicodeError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise OutputNotWritable(
                f"{self.shown}: cannot be written ({self._reason(error)}); check the address, and that its "
                "user may create tables there"
            ) from None

    def _reason(self, error: Exception) -> str:
        """Return what went wrong on one line, without secrets."""
        late = isinstance(error, TimeoutError) and not str(error)
        text = f"no answer within {_PATIENCE} seconds" if late else str(error).partition("\n")[0]
        for secret in self.secrets:
            text = text.replace(secret, "...")
        return text

    async def _write(self, changes: Sequence[Change], run: Run, overwrite: bool) -> None:
        connection = await asyncpg.connect(self.address, timeout=_PATIENCE)
        try:
            async with connection.transaction():
                await self._fill(connection, changes, run, overwrite)
        finally:
            await connection.close(timeout=_PATIENCE)

    async def _fill(
        self, to: asyncpg.Connection, changes: Sequence[Change], run: Run, overwrite: bool
    ) -> None:
        home = await to.fetchval(
            "SELECT n.nspname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace "
            "WHERE t.oid = to_regtype('geometry')"
        )
        if home is None:
            raise OutputNotWritable(
                f"{self.shown}: the database has no PostGIS; run CREATE EXTENSION postgis in it"
            )
        schema = self.schema or await to.fetchval("SELECT current_schema()")
        # The server knows best how a name is quoted.
        name = await to.fetchval("SELECT format('%I.%I', $1::text, $2::text)", schema, self.table)
        if await to.fetchval(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relname = $2",
            schema,
            self.table,
        ):
            if not overwrite:
                raise OutputExists(f"{self.shown}: exists already; add --overwrite or choose another table")
            await to.execute(f"DROP TABLE {name}")
        crs = grid_crs(changes, run)
        code = pyproj.CRS(crs).to_epsg()
        if code is None:
            crs, code = CRS, 4326
        kind = await to.fetchval(
            "SELECT format('%I.geometry(MultiPolygon, %s)', $1::text, $2::int)", home, code
        )
        columns = ", ".join(f'"{column}" {kind}' for column, kind in _COLUMNS.items())
        await to.execute(f'CREATE TABLE {name} ({columns}, "{GEOMETRY}" {kind}, PRIMARY KEY (id))')
        await to.set_type_codec("geometry", schema=home, encoder=bytes, decoder=bytes, format="binary")
        await to.copy_records_to_table(
            self.table,
            schema_name=schema,
            columns=[*_COLUMNS, GEOMETRY],
            records=_records(changes, crs, code),
        )
        await to.execute(f'CREATE INDEX ON {name} USING gist ("{GEOMETRY}")')
        comment = await to.fetchval("SELECT quote_literal($1)", json.dumps(dict(run)))
        await to.execute(f"COMMENT ON TABLE {name} IS {comment}")


def _is_clear(text: str, parts: SplitResult) -> bool:
    """Return whether all programs agree on what of an address is a password, and that it is encoded."""
    rest = parts.path + parts.query
    return (
        text.isprintable()
        and " " not in text
        and text.partition(":")[2].startswith("//")
        and "#" not in text
        and "@" not in rest
        and parts.netloc.count("@") <= 1
        and parts.path.count("/") <= 1
        and (parts.port is None or parts.port > 0)
    )


def _records(changes: Sequence[Change], crs: str, code: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table; each is made when it is sent."""
    project = transformer(CRS, crs).transform
    for change in changes:
        row: Mapping[str, Any] = change_row(feature_of(change))
        geometry = shapely.set_srid(shapely.transform(row[GEOMETRY], project, interleaved=False), code)
        yield (*(storable(row[name]) for name in _COLUMNS), shapely.to_wkb(geometry, include_srid=True))
