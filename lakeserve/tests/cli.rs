//! The `lakeserve` binary as its users meet it: exit statuses, messages, formats, signals.

#![expect(clippy::unwrap_used, reason = "a test says what broke by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

/// A `lakeserve` command in an empty folder, with none of this machine's settings.
fn lakeserve(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lakeserve"));
    command.current_dir(folder).env_clear().env("HOME", folder).stdin(Stdio::null());
    command
}

fn say(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(folder: &Path, args: &[&str]) -> Said {
    say(lakeserve(folder).args(args))
}

/// A folder with `t/part.parquet`: (1, 'a', 1.50, …), (2, NULL, 2.25, …), (3, 'c,d', NULL, …).
fn table() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("name", Arc::new(StringArray::from(vec![Some("a"), None, Some("c,d")]))),
        (
            "price",
            Arc::new(Decimal128Array::from(vec![Some(150), Some(225), None]).with_precision_and_scale(10, 2).unwrap()),
        ),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 1_500_000, 2_000_000]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    std::fs::create_dir(folder.path().join("t")).unwrap();
    let file = std::fs::File::create(folder.path().join("t/part.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    folder
}

#[test]
fn version_help_and_usage() {
    let folder = tempfile::tempdir().unwrap();
    let version = run(folder.path(), &["--version"]);
    assert_eq!((version.status, version.stdout.as_str()), (0, concat!("lakeserve ", env!("CARGO_PKG_VERSION"), "\n")));
    assert_eq!(run(folder.path(), &["--help"]).status, 0);
    for args in [
        &[][..],
        &["nonsense"],
        &["query"],
        &["query", "--format", "xml", "SELECT 1"],
        &["query", "--table", "noequals", "SELECT 1"],
        &["query", "--url", "http://127.0.0.1:1", "--table", "t=/x", "SELECT 1"],
        &["query", "--url", "nonsense", "SELECT 1"],
        &["query", "-f", "absent.sql"],
        &["up", "--scale", "1"],
        &["up"],
        &["up", "--table", "t=/x", "--http", "nonsense"],
        &["up", "--table", "t=/x", "--table", "t=/y"],
    ] {
        let said = run(folder.path(), args);
        assert_eq!(said.status, 2, "{args:?}: {}", said.stderr);
        assert!(!said.stderr.is_empty() && said.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn roles_that_are_not_there_say_so() {
    let folder = tempfile::tempdir().unwrap();
    for role in ["broker", "server", "indexer"] {
        let said = run(folder.path(), &[role]);
        assert_eq!(said.status, 2);
        assert!(said.stderr.contains(&format!("`{role}`")) && said.stderr.contains("lakeserve up"), "{}", said.stderr);
    }
}

#[test]
fn rows_in_every_format() {
    let folder = table();
    let query = |format: &str| {
        run(
            folder.path(),
            &["query", "--table", "t=t", "--format", format, "SELECT id, name, price, at FROM t ORDER BY id"],
        )
    };
    let jsonl = query("jsonl");
    assert_eq!(jsonl.status, 0, "{}", jsonl.stderr);
    assert_eq!(
        jsonl.stdout,
        "{\"id\":1,\"name\":\"a\",\"price\":\"1.50\",\"at\":\"1970-01-01T00:00:00.000000\"}\n\
         {\"id\":2,\"name\":null,\"price\":\"2.25\",\"at\":\"1970-01-01T00:00:01.500000\"}\n\
         {\"id\":3,\"name\":\"c,d\",\"price\":null,\"at\":\"1970-01-01T00:00:02.000000\"}\n"
    );
    let csv = query("csv").stdout;
    assert!(csv.starts_with("id,name,price,at\n1,a,1.50,") && csv.contains("\n3,\"c,d\",,"), "{csv}");
    let text = query("table").stdout;
    assert!(text.contains("│ id") && text.contains("1.50") && text.contains("3 rows"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&query("json").stdout).unwrap();
    assert_eq!(json["columns"][2], serde_json::json!({"name": "price", "type": "DECIMAL(10,2)"}));
    assert_eq!(json["rows"][0], serde_json::json!([1, "a", "1.50", "1970-01-01T00:00:00.000000"]));
    assert!(json["snapshots"]["t"]["id"].is_string() && json["query_id"].is_string());
    let arrow = lakeserve(folder.path())
        .args(["query", "--table", "t=t", "--format", "arrow", "SELECT id FROM t"])
        .output()
        .unwrap();
    let reader = arrow::ipc::reader::StreamReader::try_new(std::io::Cursor::new(arrow.stdout), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
}

#[test]
fn errors_go_to_standard_error_with_status_one() {
    let folder = table();
    for (sql, part) in [
        ("SELEC 1", "SELEC"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT nam FROM t", "nam"),
        ("SELECT 1 / 0", "zero"),
        ("DELETE FROM t", "t"),
        ("INSERT INTO t VALUES (1)", "t"),
        ("SELECT * FROM t TABLESAMPLE (10)", "TABLESAMPLE"),
    ] {
        let said = run(folder.path(), &["query", "--table", "t=t", "--format", "jsonl", sql]);
        assert_eq!(said.status, 1, "{sql}: {}", said.stdout);
        assert!(said.stderr.starts_with("error: ") && said.stderr.contains(part), "{sql}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{sql}");
    }
    let gone = run(folder.path(), &["query", "--table", "t=absent", "SELECT * FROM t"]);
    assert!(gone.status == 1 && gone.stderr.contains("absent"), "{}", gone.stderr);
}

#[test]
fn a_script_is_one_session() {
    let folder = table();
    let script = "CREATE TABLE mine AS SELECT id FROM t WHERE id > 1;\n\
        INSERT INTO mine VALUES (10);\n\
        CREATE VIEW doubled AS SELECT id * 2 AS twice FROM mine;\n\
        -- the answer\n\
        SELECT sum(twice) AS total FROM doubled;\n\
        VALUES (1), (2);";
    std::fs::write(folder.path().join("s.sql"), script).unwrap();
    let said = run(folder.path(), &["query", "--table", "t=t", "--format", "jsonl", "-f", "s.sql"]);
    assert_eq!(said.status, 0, "{}", said.stderr);
    assert!(said.stdout.contains("{\"total\":30}\n{\"column1\":1}\n{\"column1\":2}\n"), "{}", said.stdout);

    let mut command = lakeserve(folder.path());
    let command = command.args(["query", "--format", "csv", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 1 AS x; SELECT 2 AS y").unwrap();
    assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(), "x\n1\ny\n2\n");

    let external = "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 't'; SELECT count(*) AS n FROM e";
    let said = run(folder.path(), &["query", "--format", "jsonl", external]);
    assert_eq!((said.status, said.stdout.as_str()), (0, "{\"n\":3}\n"), "{}", said.stderr);

    let broken = run(folder.path(), &["query", "--format", "jsonl", "SELECT 1 AS x; SELECT nothing; SELECT 2 AS y"]);
    assert_eq!((broken.status, broken.stdout.as_str()), (1, "{\"x\":1}\n"));
}

#[test]
fn the_environment_lies_over_the_file() {
    let folder = table();
    std::fs::write(folder.path().join("lakeserve.toml"), "[engine]\nquery_timeout = '7s'\n[tables]\nt = 't'\n")
        .unwrap();
    let dump = |name: &str, value: &str| say(lakeserve(folder.path()).arg("dump-config").env(name, value));
    let plain = dump("UNRELATED", "1");
    assert!(plain.stdout.contains("query_timeout = \"7s\"") && plain.stdout.contains("[tables.t]"), "{}", plain.stdout);
    assert!(dump("LAKESERVE__ENGINE__QUERY_TIMEOUT", "9s").stdout.contains("query_timeout = \"9s\""));
    assert!(dump("LAKESERVE__STORAGE__CACHE_BYTES", "64MiB").stdout.contains("cache_bytes = \"64MiB\""));
    for (name, value, line) in [
        ("LAKESERVE__HTTP__LISTEN", "127.0.0.1:8100", "listen = \"127.0.0.1:8100\""),
        ("LAKESERVE__TELEMETRY__LOG", "warn,lakeserve=debug", "log = \"warn,lakeserve=debug\""),
        ("LAKESERVE__ENGINE__SESSION__TIME_ZONE", "+02:00", "time_zone = \"+02:00\""),
        ("LAKESERVE__ENGINE__MAX_QUEUED_QUERIES", "7", "max_queued_queries = 7"),
        ("LAKESERVE__HTTP__GZIP", "false", "gzip = false"),
        ("LAKESERVE__TABLES__T2", "s3://b/a=b", "location = \"s3://b/a=b\""),
    ] {
        let said = dump(name, value);
        assert!(said.stdout.contains(line), "{name}: {}{}", said.stdout, said.stderr);
    }
    let wrong = dump("LAKESERVE__ENGINE__QUERY_TIMEUOT", "9s");
    assert!(
        wrong.status == 2 && wrong.stderr.contains("query_timeuot") && wrong.stderr.contains("environment"),
        "{}",
        wrong.stderr
    );
    // The tests' own variables are nobody's settings.
    assert_eq!(dump("LAKESERVE_TEST_S3_ENDPOINT", "x").status, 0);
    let said = run(folder.path(), &["query", "--format", "csv", "SELECT count(*) AS n FROM t"]);
    assert_eq!(said.stdout, "n\n3\n", "{}", said.stderr);
    let absent = run(folder.path(), &["check", "--config", "absent.toml"]);
    assert!(absent.status == 2 && absent.stderr.contains("absent.toml"), "{}", absent.stderr);
}

#[test]
fn check_opens_every_table() {
    let folder = table();
    let good = run(folder.path(), &["check", "--table", "t=t"]);
    assert!(
        good.status == 0 && good.stdout.contains("ok      t: parquet") && good.stdout.contains("3 rows"),
        "{}",
        good.stdout
    );
    std::fs::write(folder.path().join("broken.parquet"), b"PAR1 not at all").unwrap();
    let bad =
        run(folder.path(), &["check", "--table", "t=t", "--table", "b=broken.parquet", "--table", "gone=nowhere"]);
    assert_eq!(bad.status, 1, "{}", bad.stdout);
    assert!(
        bad.stdout.contains("ok      t") && bad.stdout.contains("failed  gone") && bad.stdout.contains("failed  b"),
        "{}",
        bad.stdout
    );
    assert!(bad.stderr.contains("2 of 3"), "{}", bad.stderr);
    std::fs::write(folder.path().join("c.toml"), "[catalogs.here]\ntype = 'folder'\nlocation = '.'\n").unwrap();
    let catalog = run(folder.path(), &["check", "--config", "c.toml"]);
    assert!(catalog.stdout.contains("ok      t: parquet") && catalog.stdout.contains("broken"), "{}", catalog.stdout);
    std::fs::write(folder.path().join("e.toml"), "[catalogs.lost]\ntype = 'folder'\nlocation = 'nowhere'\n").unwrap();
    for command in ["check", "up"] {
        let lost = run(folder.path(), &[command, "--config", "e.toml"]);
        assert!(lost.status == 1 && lost.stderr.contains("catalogs.lost"), "{command}: {}", lost.stderr);
    }
    std::fs::write(folder.path().join("d.toml"), "[catalogs.prod]\ntype = 'iceberg-rest'\nuri = 'http://x'\n").unwrap();
    let refused = run(folder.path(), &["check", "--config", "d.toml"]);
    assert!(refused.status == 2 && refused.stderr.contains("iceberg-rest"), "{}", refused.stderr);
}

/// A served `t`, ended when dropped.
struct Up {
    child: Child,
    url: String,
}

impl Up {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut command = lakeserve(folder);
        command.args(["up", "--http", &address]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = format!("http://{address}");
        let told =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.contains("/tables")).collect::<Vec<_>>();
        assert!(told.iter().any(|line| line.contains(&url)), "{told:?}");
        // The rest is read on, so that the process never writes into a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    fn signal(&self, signal: &str) {
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
    }

    fn ended(&mut self, within: Duration) -> i32 {
        let started = now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(now().duration_since(started) < within, "still running");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn now() -> Instant {
    use lakeserve_common::clock::Clock;
    lakeserve_common::clock::SystemClock.instant()
}

impl Drop for Up {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn up_serves_answers_a_query_command_and_stops_on_a_signal() {
    let folder = table();
    let mut up = Up::start(folder.path(), &["--table", "t=t", "--table", "gone=nowhere"]);
    let sql = "SELECT id, name, price, at FROM t ORDER BY id; SELECT count(*) AS n FROM t";
    for format in ["table", "jsonl", "csv"] {
        let here = run(folder.path(), &["query", "--table", "t=t", "--format", format, sql]);
        let there = run(folder.path(), &["query", "--url", &up.url, "--format", format, sql]);
        assert_eq!(there.status, 0, "{}", there.stderr);
        assert_eq!(here.stdout, there.stdout);
    }
    let json = run(folder.path(), &["query", "--url", &up.url, "--format", "json", "SELECT count(*) AS n FROM t"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["rows"], serde_json::json!([[3]]));
    for (sql, part) in
        [("SELECT nam FROM t", "nam"), ("SELECT * FROM gone", "nowhere"), ("CREATE TABLE x AS SELECT 1", "")]
    {
        let said = run(folder.path(), &["query", "--url", &up.url, sql]);
        assert!(said.status == 1 && said.stderr.contains(part), "{sql}: {}", said.stderr);
    }
    let taken = run(folder.path(), &["up", "--table", "t=t", "--http", up.url.strip_prefix("http://").unwrap()]);
    assert!(taken.status == 1 && taken.stderr.contains("--http"), "{}", taken.stderr);
    up.signal("-TERM");
    assert_eq!(up.ended(Duration::from_secs(10)), 0);
    let nobody = run(folder.path(), &["query", "--url", &up.url, "SELECT 1"]);
    assert!(nobody.status == 1 && nobody.stderr.contains(&up.url), "{}", nobody.stderr);
}

#[test]
fn a_query_that_does_not_end_is_ended_by_the_drain() {
    let folder = table();
    std::fs::write(folder.path().join("lakeserve.toml"), "[http]\ndrain_grace = '300ms'\n").unwrap();
    let mut up = Up::start(folder.path(), &["--table", "t=t"]);
    let endless = "SELECT count(*) FROM generate_series(1, 10000000000) a";
    let asking =
        lakeserve(folder.path()).args(["query", "--url", &up.url, endless]).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    up.signal("-INT");
    assert_eq!(up.ended(Duration::from_secs(10)), 0);
    assert_eq!(asking.wait_with_output().unwrap().status.code(), Some(1));
    let mut log = String::new();
    up.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("stopping") && log.contains("SIGINT"), "{log}");
}
