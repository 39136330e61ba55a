//! What runs beside the held calls: the watch over the store, its hints, and what is said of its health.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::Pacer;
use crate::store::{Hint, StoreError};

/// How often the store looks after itself, and this process notices that it is away or back.
const WATCH_EVERY: Duration = Duration::from_secs(1);
const WATCH_WHILE_HOLDING: Duration = Duration::from_millis(200);
const SWEEP_EVERY: Duration = Duration::from_millis(500);
const SAY_AGAIN_AFTER: Duration = Duration::from_secs(60);

impl Pacer {
    /// Sweeps and listens for hints until the process ends.
    pub fn run(self: &Arc<Self>, hints: Option<mpsc::Receiver<Hint>>) {
        let pacer = Arc::clone(self);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP_EVERY);
            loop {
                ticks.tick().await;
                pacer.sweep();
            }
        });
        let pacer = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let pause = if pacer.watch().await { WATCH_WHILE_HOLDING } else { WATCH_EVERY };
                tokio::time::sleep(pause).await;
            }
        });
        if let Some(mut hints) = hints {
            let pacer = Arc::clone(self);
            tokio::spawn(async move {
                while let Some(hint) = hints.recv().await {
                    pacer.hear(hint);
                }
            });
        }
    }

    fn hear(self: &Arc<Self>, hint: Hint) {
        match hint {
            Hint::Wake(wake) => self.woken(&wake),
            Hint::Lost => {
                tracing::info!(
                    "a master that was not known before: unless its history is known, lanes hold for one interval + settle"
                );
                self.house.ask_all();
            }
            Hint::Found => self.house.reopen(),
            Hint::Repaired(lane) => {
                self.metrics.repaired(&lane);
                tracing::warn!(policy = %lane.policy, "took away what stood in the keys of a lane and was not ours");
            }
        }
    }

    /// An operator says that the store has lost nothing.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn vouch(&self) -> Result<(), StoreError> {
        self.store.vouch().await
    }

    /// True: the store is away, or keeps lanes closed.
    async fn watch(&self) -> bool {
        let result = self.store.watch().await;
        self.metrics.history_unknown(matches!(result, Ok(true)));
        let refusal = result.as_ref().err().filter(|error| !error.is_absence());
        if let Some(error) = refusal {
            self.notice_refusal(error);
        }
        // Only the watch says that all is well again: one late failure of many must not.
        let absence = result.as_ref().err().filter(|error| error.is_absence());
        self.hold_on(absence.is_some(), absence);
        result.unwrap_or(true)
    }

    /// Says once that everything is held, and once that it goes on.
    pub(super) fn hold_on(&self, holding: bool, error: Option<&StoreError>) {
        let was_holding = self.holding.swap(holding, Ordering::AcqRel);
        self.metrics.holding(holding);
        match (was_holding, holding) {
            (false, true) => {
                tracing::warn!(error = error.map(tracing::field::display), "holding: the store does not answer")
            }
            (true, false) => {
                tracing::info!("the store answers again: the lines move on");
                self.recovered.notify_waiters();
            }
            (true, true) | (false, false) => {}
        }
    }

    /// The store is there, but does not do what it is asked: said once a minute.
    pub(super) fn notice_refusal(&self, error: &StoreError) {
        let (mut said, now) = (self.refused.lock(), Instant::now());
        if said.is_none_or(|at| now.saturating_duration_since(at) > SAY_AGAIN_AFTER) {
            *said = Some(now);
            tracing::warn!(%error, "the store refuses: who is concerned is held");
        }
    }
}
