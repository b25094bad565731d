//! Signals of the operating system, translated into what the engine understands.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::reload::ReloadHandle;

/// SIGTERM and Ctrl-C.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From here on the signals are ours: none of them ends the process by itself.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The first signal cancels `drain`, the second ends the wait.
    pub(super) async fn second(&mut self, drain: &CancellationToken) {
        self.next().await;
        info!("stopping: what is under way ends first; a second signal stops at once");
        drain.cancel();
        self.next().await;
        warn!("stopping at once");
    }

    /// Waits for one of them.
    pub(super) async fn next(&mut self) {
        // Both are cancel-safe: a signal that is not taken here is taken by the next call.
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Listens for SIGHUP from here on. The future reads the mappings again at each, for as long as it is driven.
pub(super) fn hangups(reload: ReloadHandle) -> io::Result<impl Future<Output = io::Result<()>>> {
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(async move {
        while hangups.recv().await.is_some() {
            info!("SIGHUP: reading the mappings again");
            reload.request();
        }
        Ok(())
    })
}
