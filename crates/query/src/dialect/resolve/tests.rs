use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};

use lakeserve_common::error::ErrorKind;

use super::*;
use crate::dialect::{ParseLimits, parse};

fn schema(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>()))
}

fn lookup(name: &str) -> Option<SchemaRef> {
    let inner = DataType::Struct(Fields::from(vec![Field::new("Street", DataType::Utf8, true)]));
    Some(match name {
        "t" => schema(&["id", "Name", "a.b", "order", "größe"]),
        "Orders" => schema(&["id", "o_Date"]),
        "two" => schema(&["Id", "ID", "x"]),
        "u" | "U" => schema(&["k"]),
        "p" => Arc::new(Schema::new(vec![Field::new("Address", inner, true)])),
        "__lakeserve_at_0" => schema(&["Old"]),
        _ => return None,
    })
}

fn resolve(sql: &str) -> Result<String> {
    let all: Vec<String> = ["t", "Orders", "two", "u", "U", "p"].map(str::to_owned).to_vec();
    let mut script = parse(sql, &ParseLimits::default())?;
    let mut statement = script.statements.remove(0);
    resolve_identifiers(&mut statement, &lookup, &all)?;
    Ok(statement.ast.to_string())
}

#[test]
fn names_take_their_exact_spelling() {
    let cases = [
        ("SELECT ID, NAME FROM T", "SELECT id, Name FROM t"),
        ("SELECT \"ID\", `name` FROM `T`", "SELECT \"id\", `Name` FROM `t`"),
        (
            "SELECT T.Id, t.NAME AS N FROM T WHERE n = 1 ORDER BY N",
            "SELECT t.id, t.Name AS N FROM t WHERE n = 1 ORDER BY N",
        ),
        ("SELECT x.NAME FROM T X", "SELECT X.Name FROM t X"),
        ("SELECT \"A.B\", \"ORDER\" FROM t", "SELECT \"a.b\", \"order\" FROM t"),
        ("SELECT GRÖSSE, GRÖßE FROM t", "SELECT GRÖSSE, größe FROM t"),
        ("SELECT O_DATE FROM orders", "SELECT o_Date FROM Orders"),
        ("SELECT ORDERS.o_date FROM public.ORDERS", "SELECT Orders.o_Date FROM public.Orders"),
        (
            "SELECT sum(ID) AS Total FROM t GROUP BY NAME HAVING TOTAL > 1 ORDER BY total",
            "SELECT sum(id) AS Total FROM t GROUP BY Name HAVING Total > 1 ORDER BY Total",
        ),
        ("SELECT Id FROM two", "SELECT Id FROM two"),
        ("SELECT X FROM two", "SELECT x FROM two"),
        ("SELECT K FROM U", "SELECT k FROM U"),
        ("SELECT * EXCLUDE (NAME) FROM t", "SELECT * EXCLUDE (Name) FROM t"),
        ("SELECT T.* FROM t JOIN orders USING (ID)", "SELECT t.* FROM t JOIN Orders USING(id)"),
        (
            "SELECT a.NAME FROM t A JOIN orders B ON a.ID = b.id AND O_DATE > 1",
            "SELECT A.Name FROM t A JOIN Orders B ON A.id = B.id AND o_Date > 1",
        ),
        ("SELECT ADDRESS.STREET, p.address.street FROM P", "SELECT Address.Street, p.Address.Street FROM p"),
        ("SELECT OLD FROM t FOR VERSION AS OF 1", "SELECT Old FROM \"__lakeserve_at_0\" AS t"),
        (
            "INSERT INTO T (ID, name) SELECT O_DATE, ID FROM orders",
            "INSERT INTO t (id, Name) SELECT o_Date, id FROM Orders",
        ),
        ("DESCRIBE ORDERS", "DESCRIBE Orders"),
        ("DROP TABLE IF EXISTS ORDERS", "DROP TABLE IF EXISTS Orders"),
        (
            "SELECT count(*) OVER W FROM t WINDOW w AS (PARTITION BY NAME)",
            "SELECT count(*) OVER w FROM t WINDOW w AS (PARTITION BY Name)",
        ),
        ("VALUES (1) ORDER BY COLUMN1", "VALUES (1) ORDER BY column1"),
        ("SELECT Table_Name FROM Information_Schema.Tables", "SELECT table_name FROM information_schema.tables"),
        ("SELECT VALUE FROM Generate_Series(1, 3)", "SELECT value FROM generate_series(1, 3)"),
    ];
    for (sql, expected) in cases {
        assert_eq!(resolve(sql).unwrap_or_else(|error| panic!("{sql}: {error}")), expected, "{sql}");
    }
}

#[test]
fn names_are_seen_through_subqueries_and_ctes() {
    let cases = [
        (
            "WITH X AS (SELECT ID AS Key FROM T) SELECT KEY FROM x",
            "WITH X AS (SELECT id AS Key FROM t) SELECT Key FROM X",
        ),
        ("WITH t AS (SELECT NAME FROM T) SELECT name FROM t", "WITH t AS (SELECT Name FROM t) SELECT Name FROM t"),
        ("SELECT S.KEY FROM (SELECT ID AS Key FROM t) s", "SELECT s.Key FROM (SELECT id AS Key FROM t) s"),
        (
            "SELECT ID FROM t WHERE EXISTS (SELECT 1 FROM orders WHERE O_DATE = NAME AND t.ID = orders.id)",
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM Orders WHERE o_Date = Name AND t.id = Orders.id)",
        ),
        (
            "SELECT (SELECT max(O_DATE) FROM orders WHERE ID = T.NAME) FROM t",
            "SELECT (SELECT max(o_Date) FROM Orders WHERE id = t.Name) FROM t",
        ),
        (
            "SELECT NAME FROM t UNION SELECT O_DATE FROM orders ORDER BY NAME",
            "SELECT Name FROM t UNION SELECT o_Date FROM Orders ORDER BY Name",
        ),
        (
            "WITH RECURSIVE n AS (SELECT ID AS Level FROM t UNION ALL SELECT LEVEL + 1 FROM N) SELECT level FROM n",
            "WITH RECURSIVE n AS (SELECT id AS Level FROM t UNION ALL SELECT Level + 1 FROM n) SELECT Level FROM n",
        ),
        ("SELECT A FROM (VALUES (1, 2)) v (a, b)", "SELECT a FROM (VALUES (1, 2)) v (a, b)"),
        (
            "SELECT q.k2 FROM u, LATERAL (SELECT u.K + K AS K2) q",
            "SELECT q.K2 FROM u, LATERAL (SELECT u.k + k AS K2) q",
        ),
        (
            "SELECT * FROM (SELECT * FROM t) WHERE NAME = 1 ORDER BY ID",
            "SELECT * FROM (SELECT * FROM t) WHERE Name = 1 ORDER BY id",
        ),
        ("CREATE VIEW v AS SELECT ID FROM T", "CREATE VIEW v AS SELECT id FROM t"),
        ("EXPLAIN SELECT ID FROM T", "EXPLAIN SELECT id FROM t"),
    ];
    for (sql, expected) in cases {
        assert_eq!(resolve(sql).unwrap_or_else(|error| panic!("{sql}: {error}")), expected, "{sql}");
    }
}

#[test]
fn ambiguous_names_list_the_candidates() {
    for (sql, kind, text) in [
        ("SELECT iD FROM two", ErrorKind::NoSuchColumn, "the column name iD is ambiguous: it may mean ID or Id"),
        ("SELECT t.id FROM t, two WHERE two.id = 1", ErrorKind::NoSuchColumn, "ID or Id"),
        ("SELECT x.id FROM t X, t x2 JOIN two ON x2.id = two.id", ErrorKind::NoSuchColumn, "ID or Id"),
        ("SELECT 1 FROM u2 U2, t, (SELECT 1) u", ErrorKind::NoSuchTable, "no table named u2"),
        ("SELECT 1 FROM nothing", ErrorKind::NoSuchTable, "no table named nothing"),
        ("SELECT 1 FROM other.t", ErrorKind::NoSuchTable, "no table named other.t"),
        ("SELECT o.id FROM t JOIN two USING (id)", ErrorKind::NoSuchColumn, "ID or Id"),
    ] {
        let error = resolve(sql).unwrap_err();
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(error.message().contains(text), "{sql}: {error}");
    }
    assert_eq!(resolve_table("ORDERS", &["Orders".into(), "t".into()]).unwrap(), "Orders");
    assert_eq!(resolve_table("u", &["u".into(), "U".into()]).unwrap(), "u");
    assert_eq!(resolve_table("ordrs", &["Orders".into()]).unwrap_err().hint(), Some("did you mean Orders?"));
}

#[test]
fn tables_are_listed_once_without_ctes_and_stand_ins() {
    let sql = "WITH c AS (SELECT * FROM a) SELECT * FROM C JOIN b ON true, b, (SELECT 1 FROM s.d) x, t FOR VERSION AS OF 1, generate_series(1, 2) \
               WHERE EXISTS (SELECT 1 FROM e WHERE 1 IN (SELECT 1 FROM \"F g\"))";
    let statement = parse(sql, &ParseLimits::default()).unwrap().statements.remove(0);
    assert_eq!(table_names(&statement), ["a", "b", "s.d", "e", "F g"]);
}
