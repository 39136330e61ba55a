//! What the sidecar should know, collected between ticks. Leaves are told until it says that it heard.

use std::collections::HashMap;

use turnstone_protocol::{Answer, Leave};

use crate::Micros;

/// Entries of one call.
const BATCH: usize = 500;
/// Between two tries to tell a leave.
const RETRY_AFTER: Micros = 500_000;
/// By then whoever waits behind has complained, and the ticket is gone without us.
const GIVE_UP_AFTER: Micros = 60_000_000;

/// A leave, and since when it is to be told.
#[derive(Debug)]
struct Leaving {
    leave: Leave,
    since: Micros,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    answers: Vec<Answer>,
    leaves: Vec<Leaving>,
    retry: Vec<Leaving>,
    retry_at: Micros,
    told: HashMap<u32, Vec<Leaving>>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.leaves.is_empty() && self.retry.is_empty() && self.told.is_empty()
    }

    /// `answer` has the instant of raven's answer in place of its age.
    pub fn answered(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    pub fn leave(&mut self, leave: Leave, now: Micros) {
        self.leaves.push(Leaving { leave, since: now });
    }

    /// One body of answers, with their ages; `None`: there are no more.
    pub fn next_answers(&mut self, now: Micros) -> Option<Vec<u8>> {
        let count = self.answers.len().min(BATCH);
        let mut batch: Vec<Answer> = self.answers.drain(..count).collect();
        for answer in &mut batch {
            answer.age_us = now.saturating_sub(answer.age_us);
        }
        (!batch.is_empty()).then(|| serde_json::to_vec(&batch).unwrap_or_default())
    }

    /// One body of leaves; they stay here until [`Outbox::heard`] or [`Outbox::unheard`] of `telling`.
    pub fn next_leaves(&mut self, telling: u32, now: Micros) -> Option<Vec<u8>> {
        if now >= self.retry_at {
            self.leaves.append(&mut self.retry);
        }
        let count = self.leaves.len().min(BATCH);
        let batch: Vec<Leaving> = self.leaves.drain(..count).collect();
        let bodies: Vec<&Leave> = batch.iter().map(|leaving| &leaving.leave).collect();
        let body = serde_json::to_vec(&bodies).unwrap_or_default();
        (!batch.is_empty()).then(|| {
            self.told.insert(telling, batch);
            body
        })
    }

    /// The sidecar knows.
    pub fn heard(&mut self, telling: u32) {
        self.told.remove(&telling);
    }

    /// Nobody heard it: its leaves go out again later. Lost answers cost a settle at most.
    pub fn unheard(&mut self, telling: u32, now: Micros) {
        let Some(leaves) = self.told.remove(&telling) else { return };
        let fresh = leaves.into_iter().filter(|leaving| now.saturating_sub(leaving.since) < GIVE_UP_AFTER);
        self.retry.extend(fresh);
        self.retry_at = now.saturating_add(RETRY_AFTER);
    }
}
