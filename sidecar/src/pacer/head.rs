//! Minding the head of a lane: tell it that it leads, and skip it when it does not show up.

use std::sync::Arc;
use std::time::Instant;

use turnstone_lane::{Head, Look, Operation, Ticket, Verdict};

use super::Pacer;
use super::house::Whereabouts;
use super::local::Complaint;
use crate::policy::LaneKey;
use crate::store::Wake;

impl Pacer {
    /// Whoever leads now is told so.
    pub(super) fn tell_head(self: &Arc<Self>, key: &LaneKey, look: &Look) {
        match look.head {
            Some(head) if head.owner == self.me => self.rouse(key, head.ticket),
            Some(head) => self.wake(key, head, look),
            None => {}
        }
    }

    /// Behind an overdue head: it is ours and forgotten, or another's and perhaps dead.
    pub(super) fn mind_the_head(self: &Arc<Self>, key: &LaneKey, look: &Look) {
        self.house.mend(key, look);
        if let Some(head) = look.head.filter(|head| head.owner == self.me) {
            self.rouse(key, head.ticket);
        }
        match self.house.complain(key, look, self.me, Instant::now()) {
            Some(Complaint::Nudge(head)) => self.wake(key, head, look),
            Some(Complaint::Evict(head)) => self.evict(key, head),
            None => {}
        }
    }

    fn evict(self: &Arc<Self>, key: &LaneKey, head: Head) {
        let (pacer, key) = (Arc::clone(self), key.clone());
        tokio::spawn(async move {
            let mut skip = Some(0);
            while let Some(from) = skip {
                let evict = Operation::Evict { owner: head.owner, head: head.ticket, skip: from };
                let answer = Box::pin(pacer.operate(&key, evict)).await;
                let Ok(Verdict::Evicted { next }) = answer.map(|outcome| outcome.verdict) else { return };
                skip = next;
                if from == 0 {
                    pacer.metrics.evicted(&key);
                    tracing::warn!(policy = %key.policy, owner = %head.owner, "skipped the waiters of a sidecar that does not show up");
                }
            }
        });
    }

    fn rouse(self: &Arc<Self>, key: &LaneKey, ticket: Ticket) {
        match self.house.rouse(ticket) {
            Whereabouts::Held | Whereabouts::Expected => {}
            Whereabouts::Ghost => {
                self.metrics.ghost(key);
                self.remove_later(key.clone(), ticket);
            }
        }
    }

    fn wake(self: &Arc<Self>, key: &LaneKey, head: Head, look: &Look) {
        let wake = Wake {
            lane: key.clone(),
            ticket: head.ticket,
            revision: look.revision,
            bound_in: look.bound_in,
            opens_in: look.opens_in,
        };
        let pacer = Arc::clone(self);
        tokio::spawn(async move {
            pacer.metrics.wake_sent();
            // A lost wake is made good by the timer of whoever waits.
            let _ = pacer.store.wake(head.owner, wake).await;
        });
    }

    /// Another sidecar says that a ticket of ours leads.
    pub(super) fn woken(self: &Arc<Self>, wake: &Wake) {
        self.metrics.wake_received();
        let head = Some(Head { ticket: wake.ticket, owner: self.me });
        let Wake { lane, revision, bound_in, opens_in, .. } = wake;
        let look = Look { revision: *revision, bound_in: *bound_in, opens_in: *opens_in, head, waiting: 1 };
        if let Some(rules) = self.rules(lane) {
            self.house.learn(lane, &look, Instant::now(), rules.pace);
            if *opens_in < 0 {
                self.house.must_go(wake.ticket);
            }
            self.rouse(lane, wake.ticket);
        }
    }
}
