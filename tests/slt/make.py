"""Writes tests/slt/NAME.slt from tests/slt/queries/NAME.sql, with DuckDB's answers over the same data.

Usage: make.py FOLDER_WITH_TPCH_SF0.01_AS_PARQUET

The tables that `lakeserve up --demo --scale 0.01` makes hold the same rows; `lineitem_iceberg` is lineitem.
Values are spelled as `/v1/query` spells them.
"""
import datetime
import decimal
import pathlib
import sys

import duckdb

DATA = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def spell(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if str(value) else "(empty)"


def main():
    engine = duckdb.connect()
    for table in TABLES:
        engine.execute(f"CREATE VIEW {table} AS SELECT * FROM '{DATA}/{table}.parquet'")
    engine.execute("CREATE VIEW lineitem_iceberg AS SELECT * FROM lineitem")
    for source in sorted((HERE / "queries").glob("*.sql")):
        parts = [part.strip() for part in source.read_text().split(";")]
        out = ["# Made by tests/slt/make.py from DuckDB's answers; edit queries/" + source.name + " instead.", ""]
        for part in filter(None, parts):
            lines = [line for line in part.splitlines() if not line.startswith("--")]
            out += [line.replace("--", "#") for line in part.splitlines() if line.startswith("--")]
            sql = "\n".join(lines)
            result = engine.execute(sql)
            rows = [[spell(value) for value in row] for row in result.fetchall()]
            mode = "nosort" if "order by" in sql.lower().rsplit(")", 1)[-1] else "rowsort"
            if mode == "rowsort":
                rows.sort()
            out += [f"query {'T' * len(result.description)} {mode}", sql, "----"]
            out += [" ".join(row) for row in rows] + [""]
        (HERE / (source.stem + ".slt")).write_text("\n".join(out))


main()
