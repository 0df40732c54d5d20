//! The run itself. A pacing thread releases queries at their intended times; each connection takes
//! the next released one when it is free. When all are busy, released queries wait in the driver and
//! their latency grows from the intended time on.
//!
//! Bounded in time: what is not answered one timeout after the last intended send counts as failed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use lakeserve_common::clock::{self, Clock};
use lakeserve_common::random::Random;
use lakeserve_common::spawn::spawn;
use tokio::sync::Semaphore;

use crate::client::{Connection, Failure, Rows, Target};
use crate::cpu;
use crate::options::{RunOptions, Workload};
use crate::report::{Report, Setup, Spans, Tally};
use crate::schedule::Schedule;
use crate::workload::{self, Parameters, REVENUE_AT_SCALE_ONE, ROWS_AT_SCALE_ONE, Revenue};

const REFERENCES: &str = "one exact GROUP BY query over year, discount and quantity before the run";

/// One of the queries that are asked, with its right answer.
#[derive(Debug)]
struct Question {
    body: Bytes,
    answer: Revenue,
}

/// Runs the load that `options` ask for. Must be called within a tokio runtime.
///
/// # Errors
/// When an option is out of range, the server cannot be reached, the references cannot be computed, or
/// the first answer is wrong. Failures under load are part of the report.
pub async fn run(options: &RunOptions) -> Result<Report> {
    options.check()?;
    let target = Arc::new(Target::resolve(&options.url, options.api, options.allow_remote).await?);
    let (questions, table_rows) = prepare(&target, options).await?;
    let mut connections = Vec::new();
    for _ in 0..options.connections {
        let opened = Connection::open(Arc::clone(&target)).await;
        connections.push(opened.map_err(|failure| anyhow!("connecting to {}: {}", options.url, failure.message))?);
    }

    let schedule = Schedule::new(options.rate, options.warmup.0, options.duration.0);
    let choices = choose(questions.len(), schedule.total(), options.seed)?;
    let clock = clock::system();
    let cpu_before = cpu::used();
    let load = Arc::new(Load {
        start: clock.instant() + Duration::from_millis(20),
        clock,
        schedule,
        questions,
        choices,
        timeout: options.timeout.0,
        released: Semaphore::new(0),
        next: AtomicU64::new(0),
        tally: Mutex::new(Tally::new()?),
    });
    let pacer = Pacer::start(Arc::clone(&load), connections.len())?;
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| spawn("loadtest-sender", Arc::clone(&load).serve(connection)))
        .collect();
    for task in tasks {
        task.await.context("a connection's task died")?;
    }
    drop(pacer);

    let spans = Spans {
        queries: schedule.measured(),
        warmup: options.warmup.0,
        duration: options.duration.0,
        whole: load.elapsed(),
        cpu: cpu::used().zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
    };
    let load = Arc::into_inner(load).context("a connection outlived the run")?;
    let setup = Setup {
        workload: match options.workload {
            Workload::TpchQ6 => "tpch-q6",
        },
        url: options.url.to_string(),
        table: options.table.clone(),
        table_rows,
        varied: options.vary,
        connections: options.connections,
        threads: options.threads,
        duration_s: options.duration.0.as_secs_f64(),
        references: REFERENCES,
    };
    Ok(Report::new(setup, load.tally.into_inner().unwrap_or_else(PoisonError::into_inner), spans))
}

/// Computes the references and asks the first query once, outside of the load. Gives the questions and
/// the table's row count.
async fn prepare(target: &Arc<Target>, options: &RunOptions) -> Result<(Vec<Question>, u64)> {
    let table = workload::quoted(&options.table);
    let failed = |what: &str, failure: Failure| anyhow!("{what}: {} ({})", failure.message, failure.kind);
    let mut connection = Connection::open(Arc::clone(target)).await.map_err(|failure| failed("connecting", failure))?;
    let mut ask = async |what: &str, sql: String| -> Result<Rows> {
        let asked = tokio::time::timeout(PATIENCE, connection.ask(target.body(&sql))).await;
        asked
            .with_context(|| format!("{what}: no answer within {} s", PATIENCE.as_secs()))?
            .map_err(|failure| failed(what, failure))
    };

    let counted = ask("counting the table's rows", format!("SELECT count(*) FROM {table}")).await?;
    let count = counted.first().and_then(|row| row.first()).context("counting the table's rows: no row came back")?;
    let table_rows = u64::try_from(workload::scaled(count, 0)?.context("the row count is NULL")?)?;
    let cells = ask("computing the references", workload::cells_sql(&table)).await?;
    let references: HashMap<Parameters, Revenue> = workload::references(&cells).context("reading the references")?;

    let reference = references.get(&Parameters::DEFAULT).copied().flatten();
    if table_rows == ROWS_AT_SCALE_ONE {
        ensure!(
            reference == REVENUE_AT_SCALE_ONE,
            "the table has scale 1's row count, but the reference query gives {} where {} is known to be right",
            spell(reference),
            spell(REVENUE_AT_SCALE_ONE)
        );
    }
    let first = workload::revenue(&ask("asking the first query", Parameters::DEFAULT.sql(&table)).await?)?;
    ensure!(first == reference, "the first answer is wrong: {} where {} is right", spell(first), spell(reference));

    let asked = if options.vary { Parameters::all() } else { vec![Parameters::DEFAULT] };
    let question = |asked: Parameters| Question {
        body: target.body(&asked.sql(&table)),
        answer: references.get(&asked).copied().flatten(),
    };
    Ok((asked.into_iter().map(question).collect(), table_rows))
}

/// How long the queries before the run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Which question each query of the run asks.
fn choose(questions: usize, queries: u64, seed: u64) -> Result<Vec<u8>> {
    let bound = u8::try_from(questions)?;
    let random = Random::seeded(seed);
    let mut choices = Vec::with_capacity(usize::try_from(queries)?);
    // A byte below the largest multiple of the bound, so that each question is as likely as any other.
    let fair = u8::MAX - u8::MAX % bound;
    while (choices.len() as u64) < queries {
        let drawn: [u8; 256] = random.bytes();
        choices.extend(drawn.into_iter().filter(|byte| *byte < fair).map(|byte| byte % bound));
    }
    choices.truncate(usize::try_from(queries)?);
    Ok(choices)
}

fn spell(revenue: Revenue) -> String {
    revenue.map_or_else(|| "NULL".to_owned(), |sum| format!("{}.{:04}", sum / 10_000, (sum % 10_000).abs()))
}

/// What the connections and the pacing thread share.
#[derive(Debug)]
struct Load {
    clock: Arc<dyn Clock>,
    start: Instant,
    schedule: Schedule,
    questions: Vec<Question>,
    choices: Vec<u8>,
    timeout: Duration,
    /// One permit per query that is due and not taken yet.
    released: Semaphore,
    next: AtomicU64,
    tally: Mutex<Tally>,
}

impl Load {
    /// Since the start of the run; zero before it.
    fn elapsed(&self) -> Duration {
        self.clock.instant().saturating_duration_since(self.start)
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends queries over one connection until all are taken.
    async fn serve(self: Arc<Self>, mut connection: Connection) {
        let last = self.schedule.intended(self.schedule.total().saturating_sub(1));
        let stop = last + self.timeout;
        loop {
            let idle_since = self.elapsed();
            let Ok(permit) = self.released.acquire().await else { return };
            permit.forget();
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let choice = usize::try_from(index).ok().and_then(|index| self.choices.get(index));
            let Some(question) = choice.and_then(|choice| self.questions.get(usize::from(*choice))) else { return };
            let (intended, sent) = (self.schedule.intended(index), self.elapsed());
            let measured = self.schedule.is_measured(index);
            if measured && idle_since <= intended {
                self.tally().sent(sent.saturating_sub(intended));
            }
            let patience = self.timeout.min(stop.saturating_sub(sent));
            let asked = if patience.is_zero() {
                Err(Failure::new("not sent", "every connection was busy until the end of the run"))
            } else {
                let asked = tokio::time::timeout(patience, connection.ask(question.body.clone())).await;
                asked.unwrap_or_else(|_| {
                    Err(Failure::new("timeout", format!("no answer within {} ms", patience.as_millis())))
                })
            };
            self.record(question, asked, intended, measured);
        }
    }

    fn record(&self, question: &Question, asked: Result<Rows, Failure>, intended: Duration, measured: bool) {
        let now = self.elapsed();
        let latency = now.saturating_sub(intended);
        let mut tally = self.tally();
        if !measured {
            if asked.is_err() {
                tally.failed_in_warmup();
            }
            return;
        }
        match asked {
            Ok(rows) => {
                let wrong = match workload::revenue(&rows) {
                    Ok(answer) if answer == question.answer => None,
                    Ok(answer) => Some(format!("{} where {} is right", spell(answer), spell(question.answer))),
                    Err(error) => Some(error.to_string()),
                };
                tally.answered(latency, now, wrong);
            }
            Err(failure) => {
                let waited = matches!(failure.kind.as_str(), "timeout" | "not sent").then_some(latency);
                tally.failed(failure, waited);
            }
        }
    }
}

/// The thread that releases queries at their intended times. The runtime's timers count in whole
/// milliseconds, which is longer than the latencies that are measured; a thread's sleep is not.
struct Pacer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Pacer {
    fn start(load: Arc<Load>, connections: usize) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("loadtest-pacer".to_owned()).spawn(move || {
            let mut released = 0;
            while released < load.schedule.total() && !stopped.load(Ordering::Relaxed) {
                if let Some(wait) = load.start.checked_duration_since(load.clock.instant()) {
                    std::thread::sleep(wait);
                }
                let due = load.schedule.due(load.elapsed());
                load.released.add_permits(usize::try_from(due - released).unwrap_or(0));
                released = due;
                std::thread::sleep(load.schedule.intended(released).saturating_sub(load.elapsed()));
            }
            // One more for each connection: it finds no query left and ends.
            load.released.add_permits(connections);
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only panics when a lock is poisoned by a panic that is reported already.
            let _ = thread.join();
        }
    }
}
