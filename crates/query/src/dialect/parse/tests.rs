use super::super::{VersionChoice, VersionedTable};
use super::*;

fn one(sql: &str) -> Statement {
    let mut script = parse(sql, &ParseLimits::default()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(script.statements.len(), 1, "{sql}");
    script.statements.remove(0)
}

fn fails(sql: &str) -> Error {
    match parse(sql, &ParseLimits::default()) {
        Ok(_) => panic!("{} should be refused", sql.chars().take(200).collect::<String>()),
        Err(error) => error,
    }
}

#[test]
fn time_travel_becomes_a_stand_in_with_the_tables_alias() {
    let cases = [
        (
            "SELECT * FROM t FOR VERSION AS OF 3",
            "SELECT * FROM \"__lakeserve_at_0\" AS t",
            "t",
            VersionChoice::Version(3),
        ),
        (
            "SELECT * FROM t VERSION AS OF 3 WHERE a = 1",
            "SELECT * FROM \"__lakeserve_at_0\" AS t WHERE a = 1",
            "t",
            VersionChoice::Version(3),
        ),
        (
            "SELECT * FROM s.t FOR SYSTEM_VERSION AS OF 3 AS x",
            "SELECT * FROM \"__lakeserve_at_0\" AS x",
            "s.t",
            VersionChoice::Version(3),
        ),
        (
            "SELECT * FROM \"T t\" VERSION AS OF '7' x",
            "SELECT * FROM \"__lakeserve_at_0\" x",
            "T t",
            VersionChoice::Version(7),
        ),
        (
            "SELECT * FROM `t` FOR VERSION AS OF 'audit'",
            "SELECT * FROM \"__lakeserve_at_0\" AS `t`",
            "t",
            VersionChoice::Reference("audit".into()),
        ),
        (
            "SELECT * FROM t FOR TIMESTAMP AS OF '1970-01-01 00:00:01.5'",
            "SELECT * FROM \"__lakeserve_at_0\" AS t",
            "t",
            VersionChoice::TimestampMs(1500),
        ),
        (
            "SELECT * FROM t TIMESTAMP AS OF '1970-01-01'",
            "SELECT * FROM \"__lakeserve_at_0\" AS t",
            "t",
            VersionChoice::TimestampMs(0),
        ),
        (
            "SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '1970-01-01T01:00:00+01:00'",
            "SELECT * FROM \"__lakeserve_at_0\" AS t",
            "t",
            VersionChoice::TimestampMs(0),
        ),
    ];
    for (sql, expected, table, at) in cases {
        let statement = one(sql);
        assert_eq!(statement.ast.to_string(), expected, "{sql}");
        let versions = vec![VersionedTable { placeholder: "__lakeserve_at_0".into(), table: table.into(), at }];
        assert_eq!(statement.versions, versions, "{sql}");
        assert_eq!(statement.text, sql);
    }
}

#[test]
fn stand_ins_are_numbered_through_the_script() {
    let sql = "SELECT 1 FROM t VERSION AS OF 1 JOIN t VERSION AS OF 2 AS b ON t.a = b.a; SELECT 1 FROM u, t FOR VERSION AS OF 3 ORDER BY 1";
    let script = parse(sql, &ParseLimits::default()).unwrap();
    let names: Vec<_> = script.statements.iter().flat_map(|s| &s.versions).map(|v| v.placeholder.as_str()).collect();
    assert_eq!(names, ["__lakeserve_at_0", "__lakeserve_at_1", "__lakeserve_at_2"]);
    assert_eq!(script.statements[1].ast.to_string(), "SELECT 1 FROM u, \"__lakeserve_at_2\" AS t ORDER BY 1");
}

#[test]
fn columns_named_like_the_clauses_stay_columns() {
    for sql in
        ["SELECT timestamp AS of FROM t", "SELECT version AS of, 3 FROM t", "SELECT 'FOR VERSION AS OF 3' FROM t"]
    {
        assert!(one(sql).versions.is_empty(), "{sql}");
    }
}

#[test]
fn impossible_time_travel_is_refused_clearly() {
    let cases = [
        ("SELECT * FROM t FOR VERSION AS OF $1", "FOR VERSION AS OF takes"),
        ("SELECT * FROM t FOR TIMESTAMP AS OF CURRENT_TIMESTAMP - INTERVAL '1' DAY", "FOR TIMESTAMP AS OF takes"),
        ("SELECT * FROM t FOR TIMESTAMP AS OF 'yesterday'", "not a point in time"),
        ("SELECT * FROM t AS a FOR VERSION AS OF 3", "follows an alias"),
        ("SELECT * FROM t a VERSION AS OF 3", "follows an alias"),
        ("SELECT * FROM (SELECT 1) FOR VERSION AS OF 3", "does not follow a table's name"),
        ("SELECT * FROM t FOR SYSTEM_TIME BETWEEN '2020-01-01' AND '2021-01-01'", "with AS OF only"),
        ("SELECT * FROM t FOR VERSION AS OF 99999999999999999999", "below 2^63"),
    ];
    for (sql, expected) in cases {
        let error = fails(sql);
        assert!(error.message().contains(expected), "{sql}: {error}");
    }
}

#[test]
fn clauses_that_the_planner_drops_are_refused_by_name() {
    let cases = [
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
        ("SELECT * FROM t AS a TABLESAMPLE SYSTEM (10)", "TABLESAMPLE"),
        ("SELECT * FROM t SAMPLE (10)", "SAMPLE"),
        ("SELECT * FROM (SELECT 1 FROM t TABLESAMPLE (5 ROWS)) x", "TABLESAMPLE"),
        ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
        ("SELECT a FROM t FOR SHARE", "FOR SHARE"),
        ("SELECT a FROM t PREWHERE a = 1", "PREWHERE"),
        ("SELECT a FROM t SETTINGS max_threads = 1", "SETTINGS"),
        ("SELECT a FROM t FORMAT JSON", "FORMAT"),
        ("SELECT a FROM (SELECT a INTO x FROM t)", "INTO"),
        ("SELECT a FROM t LIMIT 1 BY a", "LIMIT … BY"),
        ("SELECT TOP 5 a FROM t", "TOP"),
        ("SELECT a, count(*) FROM t GROUP BY a WITH ROLLUP", "WITH ROLLUP"),
        ("SELECT a FROM t LATERAL VIEW explode(b) AS c", "LATERAL VIEW"),
        ("SELECT a FROM t CONNECT BY PRIOR a = b", "CONNECT BY"),
        ("SELECT abs(DISTINCT a) FROM t", "DISTINCT"),
        ("SELECT upper(a) FILTER (WHERE a = 'x') FROM t", "FILTER"),
        ("SELECT upper(a) OVER (PARTITION BY b) FROM t", "OVER"),
        ("SELECT sum(a) OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY c)", "named window"),
        ("SELECT a FROM t FETCH FIRST 5 ROWS WITH TIES", "WITH TIES"),
        ("SELECT a FROM t PIVOT (sum(b) FOR c IN ('x'))", "PIVOT"),
        ("SELECT a FROM t WHERE a IN (SELECT b FROM u FOR UPDATE)", "FOR UPDATE"),
        ("SELECT * FROM t ASOF JOIN u MATCH_CONDITION (t.a >= u.a) ON t.b = u.b", "ASOF JOIN"),
        ("WITH x AS (SELECT * FROM t TABLESAMPLE (10)) SELECT * FROM x", "TABLESAMPLE"),
    ];
    for (sql, name) in cases {
        let error = fails(sql);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{sql}: {error}");
        assert!(error.message().contains(name), "{sql}: {error}");
    }
}

#[test]
fn everything_that_writes_outside_the_session_is_refused() {
    for (sql, name) in [
        ("UPDATE t SET a = 1", "UPDATE"),
        ("DELETE FROM t", "DELETE"),
        ("COPY t TO 'x.csv'", "COPY"),
        ("CREATE DATABASE d", "CREATE DATABASE"),
        ("CREATE SCHEMA s", "CREATE SCHEMA"),
        ("TRUNCATE TABLE t", "TRUNCATE"),
        ("ALTER TABLE t ADD COLUMN b INT", "ALTER TABLE"),
        ("CREATE FUNCTION f() RETURNS INT RETURN 1", "CREATE FUNCTION"),
        ("BEGIN", "BEGIN"),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (1)", "EXPLAIN"),
        ("PREPARE p AS DELETE FROM t", "PREPARE"),
        ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE", "MERGE"),
    ] {
        let error = fails(sql);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{sql}: {error}");
        assert!(error.message().contains(name), "{sql}: {error}");
    }
}

#[test]
fn statements_have_their_kind_and_target() {
    let cases = [
        ("SELECT 1", StatementKind::Query, None),
        ("VALUES (1), (2)", StatementKind::Query, None),
        ("EXPLAIN ANALYZE SELECT 1", StatementKind::Explain, None),
        ("SHOW TABLES", StatementKind::Show, None),
        ("DESCRIBE t", StatementKind::Show, None),
        ("SET TIME ZONE 'UTC'", StatementKind::Set, None),
        ("CREATE TEMP TABLE x AS SELECT 1", StatementKind::SessionDdl, Some("x")),
        ("CREATE OR REPLACE VIEW \"V\" AS SELECT 1", StatementKind::SessionDdl, Some("V")),
        ("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'x.csv'", StatementKind::SessionDdl, Some("e")),
        ("DROP TABLE IF EXISTS x", StatementKind::SessionDdl, Some("x")),
        ("SELECT 1 AS a INTO y", StatementKind::SessionDdl, Some("y")),
        ("EXPLAIN EXECUTE p(1)", StatementKind::Explain, None),
        ("DROP VIEW v", StatementKind::SessionDdl, Some("v")),
        ("INSERT INTO s.x VALUES (1)", StatementKind::SessionInsert, Some("s.x")),
        ("PREPARE p AS SELECT $1", StatementKind::Prepared, None),
        ("EXECUTE p(1)", StatementKind::Prepared, None),
        ("DEALLOCATE p", StatementKind::Prepared, None),
    ];
    for (sql, kind, target) in cases {
        let statement = one(sql);
        assert_eq!(statement.kind(), kind, "{sql}");
        assert_eq!(statement.target().as_deref(), target, "{sql}");
    }
}

#[test]
fn leading_settings_are_collected() {
    let script =
        parse("SET timeoutMs = 100; set useMultistageEngine='true';\nSELECT 1; SET x = 2", &ParseLimits::default())
            .unwrap();
    assert_eq!(script.settings, [("timeoutMs".into(), "100".into()), ("useMultistageEngine".into(), "true".into())]);
    let texts: Vec<_> = script.statements.iter().map(|s| s.text.as_str()).collect();
    assert_eq!(texts, ["SELECT 1", "SET x = 2"]);
    let only = parse("SET a.b = 'c'", &ParseLimits::default()).unwrap();
    assert_eq!(only.settings, []);
    assert_eq!(only.statements[0].setting(), Some(("a.b".into(), "c".into())));
    assert_eq!(one("SET TIME ZONE '+02:00'").setting(), Some(("time_zone".into(), "+02:00".into())));
}

#[test]
fn both_quotes_quote_and_text_is_kept() {
    let statement = one("SELECT `a b`, \"c\"\"d\" FROM `T`; ");
    assert_eq!(statement.ast.to_string(), "SELECT `a b`, \"c\"\"d\" FROM `T`");
    let script = parse("/* ä; */ SELECT 'ö;' ;; -- x\n SELECT 2 -- y", &ParseLimits::default()).unwrap();
    let texts: Vec<_> = script.statements.iter().map(|s| s.text.as_str()).collect();
    assert_eq!(texts, ["SELECT 'ö;'", "SELECT 2 -- y"]);
}

#[test]
fn malformed_text_says_where() {
    for (sql, place) in
        [("SELECT * FROM t\nWHER a = 1", "line 2, column 6"), ("SELECT 'abc", "line 1, column 8"), ("SELECT (1", "")]
    {
        let error = fails(sql);
        assert_eq!(error.kind(), ErrorKind::Parse, "{sql}: {error}");
        assert!(error.message().contains(place), "{sql}: {error}");
    }
    assert_eq!(fails(" ; -- nothing").kind(), ErrorKind::Parse);
    assert_eq!(fails("SELECT 1 SELECT 2").kind(), ErrorKind::Parse);
}

#[test]
fn reserved_names_are_refused() {
    assert_eq!(fails("SELECT * FROM __lakeserve_at_0").kind(), ErrorKind::Unsupported);
    assert_eq!(fails("SELECT \"__Lakeserve_row\" FROM t").kind(), ErrorKind::Unsupported);
}

#[test]
fn fetch_is_limit() {
    assert_eq!(one("SELECT a FROM t FETCH FIRST 5 ROWS ONLY").ast.to_string(), "SELECT a FROM t LIMIT 5");
    assert_eq!(one("SELECT a FROM t OFFSET 2 FETCH NEXT ROW ONLY").ast.to_string(), "SELECT a FROM t LIMIT 1 OFFSET 2");
}

/// Runs on a thread with the stack that test and worker threads have.
fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn no_text_exhausts_the_stack() {
    on_small_stack(|| {
        let many = |part: &str, count: usize| part.repeat(count);
        let refused = [
            format!("SELECT {}1{}", many("(", 5000), many(")", 5000)),
            format!("SELECT {}1{}", many("abs(", 10_000), many(")", 10_000)),
            format!("SELECT {}1", many("NOT ", 100_000)),
            format!("SELECT {}1", many("- ", 100_000)),
            format!("SELECT {}1", many("+ ", 15_000)),
            format!("SELECT 1{}", many(" + 1", 100_000)),
            format!("SELECT 1{}", many(" + 1", 9_000)),
            format!("SELECT 1{}", many("::int", 9_000)),
            format!("SELECT 1{}", many("::int", 500_000)),
            format!("SELECT a{}", many(" IS NULL", 9_000)),
            format!("SELECT a{}", many(" BETWEEN 1 AND 2", 9_000)),
            format!("SELECT a{}", many(" BETWEEN 1 AND 2", 100_000)),
            format!("SELECT {} 1 {}", many("CASE WHEN true THEN ", 1000), many(" END", 1000)),
            format!("SELECT CAST(1 AS {}INT{})", many("ARRAY<", 5000), many(">", 5000)),
            format!("SELECT CAST(1 AS INT{})", many("[]", 5000)),
            format!("SELECT 1{}", many(" UNION ALL SELECT 1", 50_000)),
            format!("SELECT 1 FROM t{}", many(" JOIN t ON true", 50_000)),
            format!("{}SELECT 1", many("EXPLAIN ", 50_000)),
            format!("{}SELECT 1", many("PREPARE p AS ", 50_000)),
            format!("{}t{}", many("SELECT * FROM (", 3000), many(")", 3000)),
            format!("SELECT a FROM t WHERE a = 1{} ORDER", many(" OR a = 1", 90_000)),
            format!("SELECT a FROM t WHERE a = 1{}", many(" OR a = 1", 300_000)),
            format!("SELECT {}", many("[", 100_000)),
            format!("SELECT {}", many("{", 100_000)),
        ];
        for sql in refused {
            let head: String = sql.chars().take(40).collect();
            let error = fails(&sql);
            assert!(
                matches!(error.kind(), ErrorKind::Resource | ErrorKind::Parse),
                "{head}: {:?} {error}",
                error.kind()
            );
        }
        let accepted = [
            format!("SELECT a FROM t WHERE a = 1{}", many(" OR a = 1", 20_000)),
            format!("SELECT a FROM t WHERE a = 1{}", many(" AND a = 1", 20_000)),
            format!("SELECT a FROM t WHERE {}a = 1", many("a = 1 AND NOT ", 20_000)),
            format!("SELECT a FROM t WHERE a IN (1{})", many(", 1", 100_000)),
            format!("SELECT {}1{}", many("(", 190), many(")", 190)),
            format!("SELECT {}1{}", many("abs(", 190), many(")", 190)),
            format!("SELECT 1{}", many(" UNION ALL SELECT 1", 400)),
            format!("SELECT 1{}", many(" + 1", 499)),
            format!("VALUES (1){}", many(", (1)", 20_000)),
        ];
        for sql in accepted {
            let head: String = sql.chars().take(40).collect();
            assert!(
                parse(&sql, &ParseLimits::default()).is_ok(),
                "{head}: {:?}",
                parse(&sql, &ParseLimits::default()).err()
            );
        }
    });
}

#[test]
fn huge_text_is_refused_before_it_is_read() {
    let error = fails(&"x".repeat(50 << 20));
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn nested_subqueries_and_joins_parse_in_reasonable_time() {
    on_small_stack(|| {
        let nested = format!("{}SELECT 1{}", "SELECT * FROM (".repeat(60), ") x".repeat(60));
        assert!(parse(&nested, &ParseLimits::default()).is_ok());
        let parens = format!("SELECT * FROM {}t{}", "(".repeat(20), ")".repeat(20));
        let _ = parse(&parens, &ParseLimits::default());
    });
}
