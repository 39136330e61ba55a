//! The lane: who goes next, and when.

use crate::line::Line;
use crate::types::{
    EVICT_SLICE, Evidence, Grant, LOOKAHEAD, Look, Micros, NEW_FOR, Operation, Outcome, Owner, Pace, Refused, Revision,
    Take, Ticket, Verdict, Waiting,
};

/// The last grant, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Whose turn it was; `None` where only the instant is known (given back, or learned from a caller).
    pub ticket: Option<Ticket>,
    pub granted_at: Micros,
    /// When the upstream answered, and so had the request for certain.
    pub answered_at: Option<Micros>,
    /// The bound before this grant: what a turn that is given back returns to.
    pub before: Option<Micros>,
}

impl Last {
    /// Nobody's turn: the upstream had its last request by `bound`, or will have it by then.
    fn settled(bound: Micros, settle: Micros) -> Self {
        Self { ticket: None, granted_at: bound - settle, answered_at: None, before: None }
    }

    /// By when the upstream has the request: when it answered, or `settle` after release.
    ///
    /// A stamp in the future means that the clock ran backwards: it counts as `now`.
    fn bound(&self, now: Micros, settle: Micros) -> Micros {
        let settled = self.granted_at(now) + settle;
        self.answered_at.map_or(settled, |answered| answered.min(now).min(settled))
    }

    fn granted_at(&self, now: Micros) -> Micros {
        if self.granted_at > now + LOOKAHEAD { now } else { self.granted_at }
    }

    fn awaits_answer(&self, ticket: Ticket) -> bool {
        self.ticket == Some(ticket) && self.answered_at.is_none()
    }
}

/// The line and the clock of one client of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    last: Option<Last>,
    line: Line,
    not_before: Micros,
    revision: Revision,
}

impl Lane {
    /// A lane whose history nobody knows: it counts as granted at `born`.
    pub fn unknown(born: Micros) -> Self {
        let last = Last { ticket: None, granted_at: born, answered_at: None, before: None };
        Self { last: Some(last), ..Self::default() }
    }

    /// Carries out one operation at `now` under the rules of `pace`.
    pub fn apply(&mut self, operation: Operation, now: Micros, pace: Pace) -> Outcome {
        let verdict = match operation {
            Operation::Take(take) => return self.take(take, now, pace),
            Operation::Answered { ticket, age } => changed(self.answered(ticket, now - age, now)),
            Operation::Leave { ticket, unsent } => changed(self.leave(ticket, unsent, pace.settle, now)),
            Operation::Evict { owner, head, skip } => self.evict(owner, head, skip),
            Operation::Pause { until } => self.close_until(until),
            Operation::Resume => self.close_until(0),
            Operation::Look => Verdict::Unchanged,
        };
        Outcome { verdict, look: self.look(now, pace) }
    }

    /// How the lane stands; changes nothing.
    pub fn look(&self, now: Micros, pace: Pace) -> Look {
        self.look_from(self.bound(now, pace), now, pace)
    }

    /// Nothing waits, and nothing that is stored can delay a request any more.
    pub fn is_idle(&self, now: Micros, pace: Pace) -> bool {
        self.line.is_empty() && self.look(now, pace).opens_in <= 0
    }

    fn look_from(&self, bound: Option<Micros>, now: Micros, pace: Pace) -> Look {
        Look {
            revision: self.revision,
            bound_in: bound.map(|bound| bound - now),
            opens_in: self.opens_at(bound, now, pace) - now,
            head: self.line.head(),
            waiting: self.line.len(),
        }
    }

    fn bound(&self, now: Micros, pace: Pace) -> Option<Micros> {
        self.last.map(|last| last.bound(now, pace.settle))
    }

    fn opens_at(&self, bound: Option<Micros>, now: Micros, pace: Pace) -> Micros {
        bound.map_or(now, |bound| bound + pace.interval).max(self.not_before)
    }

    fn take(&mut self, take: Take, now: Micros, pace: Pace) -> Outcome {
        let bound = self.witnessed_bound(take.evidence, now, pace);
        if let Some(grant) = self.grant_again(take.ticket, now) {
            return Outcome { verdict: Verdict::Granted(grant), look: self.look(now, pace) };
        }
        let in_line = self.line.len();
        let since = take.since.unwrap_or_else(|| self.arrival(now));
        let since = self.line.join(take.ticket, take.owner, since);
        let is_new = self.line.len() > in_line;
        let only_join = take.only_join || (is_new && now - since > NEW_FOR);
        let leads = self.line.head().is_some_and(|head| head.ticket == take.ticket);
        let opens_at = self.opens_at(bound, now, pace);
        if leads && !only_join && now + LOOKAHEAD >= opens_at {
            let granted_at = now.max(opens_at);
            self.grant(take.ticket, granted_at, bound, now);
            let grant = Grant { start_in: granted_at - now, again: false };
            return Outcome { verdict: Verdict::Granted(grant), look: self.look(now, pace) };
        }
        let ahead = self.line.ahead(take.ticket, since);
        let wait = (opens_at - now).max(0) + i64::try_from(ahead).unwrap_or(i64::MAX).saturating_mul(pace.interval);
        let verdict = if is_new && take.bounds.exceeded(wait, in_line) {
            self.line.remove(take.ticket);
            Verdict::Refused(Refused { wait, ahead })
        } else {
            self.begin(now);
            Verdict::Waiting(Waiting { since, ahead })
        };
        Outcome { verdict, look: self.look_from(bound, now, pace) }
    }

    /// Whoever waits leaves a state behind, so that a store can notice its loss.
    fn begin(&mut self, now: Micros) {
        if self.revision == 0 {
            self.change(self.last, now);
        }
    }

    /// A new arrival stands behind all who wait, whatever the clock did meanwhile.
    fn arrival(&self, now: Micros) -> Micros {
        self.line.newest().map_or(now, |newest| now.max(newest + 1))
    }

    /// The reply to this ticket's grant was lost, or came too late to be used.
    fn grant_again(&mut self, ticket: Ticket, now: Micros) -> Option<Grant> {
        let last = self.last.filter(|last| last.awaits_answer(ticket))?;
        let granted_at = last.granted_at(now).max(now);
        self.change(Some(Last { granted_at, ..last }), now);
        Some(Grant { start_in: granted_at - now, again: true })
    }

    fn grant(&mut self, ticket: Ticket, granted_at: Micros, before: Option<Micros>, now: Micros) {
        self.line.remove(ticket);
        let last = Last { ticket: Some(ticket), granted_at, answered_at: None, before };
        self.change(Some(last), now);
    }

    /// By when the upstream has the last request. A caller's monotonic clock beats the wall clock,
    /// and its memory beats a store that lost a write.
    fn witnessed_bound(&mut self, evidence: Option<Evidence>, now: Micros, pace: Pace) -> Option<Micros> {
        let stored = self.bound(now, pace);
        let Some(evidence) = evidence.filter(|evidence| evidence.revision >= self.revision) else {
            return stored;
        };
        let witnessed = now - evidence.age;
        if evidence.revision == self.revision {
            return stored.and(Some(witnessed));
        }
        let bound = stored.map_or(witnessed, |stored| stored.max(witnessed));
        self.last = Some(Last::settled(bound, pace.settle));
        self.revision = evidence.revision;
        Some(bound)
    }

    fn answered(&mut self, ticket: Ticket, answered_at: Micros, now: Micros) -> bool {
        let Some(last) = self.last.filter(|last| last.awaits_answer(ticket)) else { return false };
        let answered_at = answered_at.max(last.granted_at(now));
        self.change(Some(Last { answered_at: Some(answered_at), ..last }), now);
        true
    }

    fn leave(&mut self, ticket: Ticket, unsent: bool, settle: Micros, now: Micros) -> bool {
        let waited = self.line.remove(ticket);
        match self.last.filter(|last| unsent && last.awaits_answer(ticket)) {
            Some(last) => {
                self.change(last.before.map(|bound| Last::settled(bound, settle)), now);
                true
            }
            None => waited,
        }
    }

    fn evict(&mut self, owner: Owner, head: Ticket, skip: u64) -> Verdict {
        let still_leads = self.line.head().is_some_and(|h| h.ticket == head && h.owner == owner);
        if skip == 0 && !still_leads {
            return Verdict::Unchanged;
        }
        let (seen, removed) = self.line.remove_some(owner, skip, EVICT_SLICE);
        Verdict::Evicted { next: (seen == EVICT_SLICE).then_some(skip + seen - removed) }
    }

    fn close_until(&mut self, until: Micros) -> Verdict {
        let differs = self.not_before != until;
        self.not_before = until;
        changed(differs)
    }

    fn change(&mut self, last: Option<Last>, now: Micros) {
        self.last = last;
        if self.not_before <= now {
            self.not_before = 0;
        }
        self.revision = now.max(self.revision + 1);
    }
}

fn changed(changed: bool) -> Verdict {
    if changed { Verdict::Changed } else { Verdict::Unchanged }
}
