"""The Python client of Apache Pinot and its SQLAlchemy dialect against a running broker.

Usage: pinotdb_client.py PORT
"""
import json
import sys
from decimal import Decimal

from pinotdb import connect
from pinotdb.exceptions import DatabaseError
from sqlalchemy import create_engine, inspect, text

PORT = int(sys.argv[1])


def check(name, got, expected):
    if got != expected:
        sys.exit(f"{name}: got {got!r}, expected {expected!r}")


def dbapi():
    connection = connect(host="127.0.0.1", port=PORT, path="/query/sql", scheme="http")
    cursor = connection.cursor()
    cursor.execute("SELECT n_name, n_nationkey FROM nation WHERE n_nationkey < 3 ORDER BY n_nationkey")
    check("rows", [list(row) for row in cursor], [["ALGERIA", 0], ["ARGENTINA", 1], ["BRAZIL", 2]])
    check("columns", [column[0] for column in cursor.description], ["n_name", "n_nationkey"])
    cursor.execute("SELECT count(*) FROM nation WHERE n_name = %(name)s", {"name": "KENYA"})
    check("parameter", cursor.fetchone(), [1])
    cursor.execute("SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_quantity < 24")
    # The client hands a BIG_DECIMAL out as the JSON text that it is.
    check("decimal", Decimal(json.loads(cursor.fetchone()[0])), Decimal("23357090.4919"))
    cursor.execute("SELECT l_orderkey FROM lineitem")
    check("no hidden limit", len(cursor.fetchall()), 60175)
    try:
        cursor.execute("SELECT nothing FROM nation")
    except DatabaseError as error:
        check("error names the column", "nothing" in str(error), True)
    else:
        sys.exit("an unknown column was answered")


def sqlalchemy():
    address = f"127.0.0.1:{PORT}"
    engine = create_engine(f"pinot://{address}/query/sql?controller=http://{address}/")
    inspector = inspect(engine)
    check("tables", sorted(inspector.get_table_names()), ["lineitem", "nation"])
    columns = [column["name"] for column in inspector.get_columns("nation")]
    check("columns", sorted(columns), ["n_comment", "n_name", "n_nationkey", "n_regionkey"])
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT n_name FROM nation WHERE n_nationkey = 7")).fetchall()
        check("select", [tuple(row) for row in rows], [("GERMANY",)])


dbapi()
sqlalchemy()
print("all checks passed")
