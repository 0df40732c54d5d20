//! How far the writing has come, on stderr: a bar where stderr is a terminal, a plain line for every
//! tenth of the work where it is not, or nothing.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A handle to report progress through. Clones report to the same place.
#[derive(Clone)]
pub struct Progress(Arc<Mode>);

enum Mode {
    Silent,
    Lines { total: AtomicU64, done: AtomicU64 },
    Bar(ProgressBar),
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

impl Progress {
    /// Reports nothing.
    #[must_use]
    pub fn silent() -> Self {
        Self(Arc::new(Mode::Silent))
    }

    /// A bar when stderr is a terminal, else plain lines on stderr.
    #[must_use]
    pub fn stderr() -> Self {
        if std::io::stderr().is_terminal() {
            // Drawn from the beginning of the work on, not before.
            let bar = ProgressBar::hidden();
            let style = ProgressStyle::with_template(
                "{msg} [{bar:40}] {percent:>3}% {human_pos} rows, {elapsed} of about {duration}",
            );
            if let Ok(style) = style {
                bar.set_style(style.progress_chars("=> "));
            }
            return Self(Arc::new(Mode::Bar(bar)));
        }
        Self(Arc::new(Mode::Lines { total: AtomicU64::new(0), done: AtomicU64::new(0) }))
    }

    /// Work of about `rows` rows begins; `what` names it.
    pub(crate) fn begin(&self, what: &str, rows: u64) {
        match &*self.0 {
            Mode::Silent => {}
            Mode::Lines { total, done } => {
                total.store(rows, Ordering::Relaxed);
                done.store(0, Ordering::Relaxed);
                eprintln!("{what}: about {rows} rows");
            }
            Mode::Bar(bar) => {
                bar.set_message(what.to_owned());
                bar.set_length(rows);
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.reset();
            }
        }
    }

    /// `rows` more rows are written.
    pub(crate) fn rows(&self, rows: u64) {
        match &*self.0 {
            Mode::Silent => {}
            Mode::Lines { total, done } => {
                let total = total.load(Ordering::Relaxed).max(1);
                let before = done.fetch_add(rows, Ordering::Relaxed);
                let tenth = |rows: u64| rows.saturating_mul(10) / total;
                let now = tenth(before + rows).min(9);
                if now > tenth(before) {
                    eprintln!("  {}% written", now * 10);
                }
            }
            Mode::Bar(bar) => bar.inc(rows),
        }
    }

    /// Tells something once, between the reports.
    pub(crate) fn note(&self, what: &str) {
        match &*self.0 {
            Mode::Silent => {}
            Mode::Lines { .. } => eprintln!("{what}"),
            Mode::Bar(bar) => bar.suspend(|| eprintln!("{what}")),
        }
    }

    /// The work is done.
    pub(crate) fn finish(&self, what: &str) {
        match &*self.0 {
            Mode::Silent => {}
            Mode::Lines { .. } => eprintln!("{what}"),
            Mode::Bar(bar) => {
                bar.finish_and_clear();
                eprintln!("{what}");
            }
        }
    }
}
