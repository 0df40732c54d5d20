//! One running `lakeserve up`, owned by a test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

/// The `lakeserve` binary that this build made.
///
/// # Errors
/// When it was not built.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("LAKESERVE_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).context("the test binary lies in no target folder")?;
    let binary = profile.join("lakeserve");
    ensure!(binary.is_file(), "{} is not there: build with --workspace, or set LAKESERVE_BIN", binary.display());
    Ok(binary)
}

/// What a finished command said.
#[derive(Debug)]
pub struct Output {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `lakeserve` with `args` to its end.
///
/// # Errors
/// When the binary cannot be started.
pub fn run(args: &[&str]) -> anyhow::Result<Output> {
    let output = Command::new(binary()?).args(args).stdin(Stdio::null()).output()?;
    Ok(Output {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// How long one query may take: a debug build on a busy machine plans huge statements slowly.
const PATIENCE_MS: u64 = 240_000;

/// A running server. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
    client: reqwest::Client,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

/// How to start a server.
#[derive(Debug, Default, Clone)]
pub struct Start {
    args: Vec<String>,
    envs: Vec<(String, String)>,
    port: Option<u16>,
}

impl Start {
    /// `lakeserve up` with nothing else.
    #[must_use]
    pub fn up() -> Self {
        Self::default()
    }

    /// Serves `location` as `name`.
    #[must_use]
    pub fn table(self, name: &str, location: impl AsRef<str>) -> Self {
        self.arg("--table").arg(format!("{name}={}", location.as_ref()))
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.envs.push((name.to_owned(), value.into()));
        self
    }

    /// Listens on this port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it ends or is not ready within two minutes; the error holds its log.
    pub async fn ready(self) -> anyhow::Result<Server> {
        let mut server = self.spawn()?;
        let patience = Duration::from_millis(100);
        for _ in 0..1_200 {
            if let Some(status) = server.child.try_wait()? {
                bail!("lakeserve ended with {status}:\n{}", server.log());
            }
            if let Ok(answer) = server.client.get(format!("{}/health/readiness", server.url)).send().await
                && answer.status().is_success()
            {
                return Ok(server);
            }
            tokio::time::sleep(patience).await;
        }
        bail!("lakeserve is not ready after two minutes:\n{}", server.log())
    }

    fn spawn(self) -> anyhow::Result<Server> {
        let port = match self.port {
            Some(port) => port,
            None => free_port()?,
        };
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let output = std::fs::File::create(&log)?;
        let child = Command::new(binary()?)
            .arg("up")
            .arg("--http")
            .arg(format!("127.0.0.1:{port}"))
            .args(&self.args)
            .envs(self.envs)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Server {
            child,
            url: format!("http://127.0.0.1:{port}"),
            client: reqwest::Client::builder().timeout(Duration::from_millis(PATIENCE_MS)).build()?,
            log,
            _folder: folder,
        })
    }
}

/// A port that was free a moment ago.
///
/// # Errors
/// When none can be bound.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The HTTP client of this server.
    #[must_use]
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Everything that the server has printed.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a body to `/v1/query`; status and JSON answer.
    ///
    /// # Errors
    /// When the request fails or the answer is not JSON.
    pub async fn post(&self, body: Value) -> anyhow::Result<(u16, Value)> {
        let answer = self.client.post(format!("{}/v1/query", self.url)).json(&body).send().await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        let value = serde_json::from_str(&text).with_context(|| format!("status {status}, not JSON: {text}"))?;
        Ok((status, value))
    }

    /// The rows of one statement.
    ///
    /// # Errors
    /// When the answer is an error; the message is the server's.
    pub async fn rows(&self, sql: &str) -> anyhow::Result<Vec<Vec<Value>>> {
        let (status, mut answer) = self.post(json!({"sql": sql, "timeout_ms": PATIENCE_MS})).await?;
        ensure!(status == 200, "status {status}: {}", answer["error"]);
        let Value::Array(rows) = answer["rows"].take() else { bail!("no rows in {answer}") };
        rows.into_iter()
            .map(|row| match row {
                Value::Array(values) => Ok(values),
                other => bail!("{other} is not a row"),
            })
            .collect()
    }

    /// The error of a statement that must be refused: status, kind, message.
    ///
    /// # Errors
    /// When the statement is answered instead.
    pub async fn refusal(&self, sql: &str) -> anyhow::Result<(u16, String, String)> {
        let (status, answer) = self.post(json!({"sql": sql})).await?;
        let error = &answer["error"];
        ensure!(status != 200 && error.is_object(), "answered instead of refused: {answer}");
        let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
        Ok((status, text("kind"), text("message")))
    }

    /// Asks the server to stop (SIGTERM) and waits for its end.
    ///
    /// # Errors
    /// When it does not end within 30 seconds.
    pub async fn terminate(mut self) -> anyhow::Result<i32> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        for _ in 0..300 {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code().unwrap_or(-1));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("lakeserve does not end on SIGTERM:\n{}", self.log())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
