//! What a script answers, read back into the lane's words.

use redis::{FromRedisValue, Value};
use turnstone_lane::{Grant, Head, Look, Micros, Outcome, Owner, Refused, Ticket, Verdict, Waiting};

use super::super::StoreError;

type Fields =
    (i64, i64, i64, Micros, i64, Option<Micros>, Micros, Option<Vec<u8>>, Option<Vec<u8>>, u64, Option<String>);

/// One reply of a script.
pub(super) struct Reply {
    /// The store's clock.
    pub now: Micros,
    pub outcome: Outcome,
    /// The node's replication id, where that kept it from granting.
    pub stranger: Option<String>,
}

pub(super) fn read(reply: Value) -> Result<Reply, StoreError> {
    let fields = Fields::from_redis_value(reply).map_err(|error| StoreError::Garbled(error.to_string()))?;
    let (verdict, a, b, now, revision, bound_in, opens_in, ticket, owner, waiting, stranger) = fields;
    let head = ticket.map(|ticket| head(&ticket, owner.as_deref())).transpose()?;
    let look = Look { revision, bound_in, opens_in, head, waiting };
    Ok(Reply { now, outcome: Outcome { verdict: self::verdict(verdict, a, b)?, look }, stranger })
}

fn verdict(code: i64, a: i64, b: i64) -> Result<Verdict, StoreError> {
    match code {
        0 => Ok(Verdict::Unchanged),
        1 => Ok(Verdict::Changed),
        2 => Ok(Verdict::Granted(Grant { start_in: a, again: b == 1 })),
        3 => Ok(Verdict::Waiting(Waiting { since: a, ahead: b.unsigned_abs() })),
        4 => Ok(Verdict::Refused(Refused { wait: a, ahead: b.unsigned_abs() })),
        5 => Ok(Verdict::Evicted { next: u64::try_from(a).ok() }),
        other => Err(StoreError::Garbled(format!("verdict {other}"))),
    }
}

/// An owner that Redis lost is nobody: eviction and polling do without.
fn head(ticket: &[u8], owner: Option<&[u8]>) -> Result<Head, StoreError> {
    let ticket =
        Ticket::from_bytes(ticket).ok_or_else(|| StoreError::Garbled(format!("a ticket of {} bytes", ticket.len())))?;
    let owner = owner.and_then(|owner| owner.try_into().ok()).map_or(0, u64::from_be_bytes);
    Ok(Head { ticket, owner: Owner(owner) })
}
