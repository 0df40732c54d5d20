//! Orderly shutdown: one token that everything watches, and the wait for SIGTERM or Ctrl-C.

use std::io;

use tokio_util::sync::CancellationToken;

/// Tells every part of the process that it should stop taking work, finish, and end.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A token that nobody has triggered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the shutdown.
    pub fn trigger(&self) {
        self.0.cancel();
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the shutdown begins.
    pub async fn triggered(&self) {
        self.0.cancelled().await;
    }
}

/// Waits for SIGTERM or SIGINT and returns its name.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub async fn signal() -> io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}
