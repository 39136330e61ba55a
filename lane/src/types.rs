//! The words of the lane.

use std::fmt;
use std::str::FromStr;

/// An instant or a span in microseconds; which of the two, its name says.
pub type Micros = i64;

/// A grant may be given this long before the lane opens, so that its holder can let go on time.
///
/// It covers a round trip to the store and one late timer. A turn granted early still *starts*
/// when the lane opens.
pub const LOOKAHEAD: Micros = 10_000;

/// A ticket without a place that arrived longer ago than this has waited somewhere, as others may have
/// who come after it: it takes its place first.
pub const NEW_FOR: Micros = 1_000_000;

/// So many tickets are looked at in one slice of an eviction: it must not block a store for long.
pub const EVICT_SLICE: u64 = 1000;

/// One waiting request, named by the filter; unique for ever. Written as 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u128);

impl Ticket {
    /// `None` for zero, which stands for "no ticket" in the stores.
    pub const fn new(id: u128) -> Option<Self> {
        if id == 0 { None } else { Some(Self(id)) }
    }

    /// Big-endian, so that bytes sort as numbers do.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The reverse of [`Ticket::to_bytes`]; `None` for zero or another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::new(u128::from_be_bytes(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A ticket is 32 hex digits, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATicket;

impl fmt::Display for NotATicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ticket is 32 lower-case hex digits, not all zero")
    }
}

impl std::error::Error for NotATicket {}

impl FromStr for Ticket {
    type Err = NotATicket;

    fn from_str(text: &str) -> Result<Self, NotATicket> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(hex) {
            return Err(NotATicket);
        }
        u128::from_str_radix(text, 16).ok().and_then(Self::new).ok_or(NotATicket)
    }
}

/// The sidecar process that holds a ticket; new at each process start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Rises with every change of a lane's last grant; raven may check it as a fencing number.
pub type Revision = i64;

/// The rules that govern a lane right now; not part of its state, so a change is immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Least time between two requests at the upstream.
    pub interval: Micros,
    /// How long a released request may take to reach the upstream.
    pub settle: Micros,
}

/// What a caller knows of the last grant by its own monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The revision it saw.
    pub revision: Revision,
    /// The upstream had that request at least this long ago; negative: it will, by then.
    pub age: Micros,
}

/// A request for a turn; repeated until granted, always with the same ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    pub ticket: Ticket,
    pub owner: Owner,
    /// The arrival stamp, where it is known: it puts a ticket that the store lost back in its place.
    pub since: Option<Micros>,
    pub evidence: Option<Evidence>,
    /// What a ticket without a place must not exceed.
    pub bounds: Bounds,
    /// It asks for its place, and for no turn that it has not had yet.
    pub only_join: bool,
}

impl Take {
    /// A ticket that comes without a history, and with no bounds.
    pub fn new(ticket: Ticket, owner: Owner) -> Self {
        Self { ticket, owner, since: None, evidence: None, bounds: Bounds::default(), only_join: false }
    }
}

/// How long and how far back a new ticket may have to wait; by default as it must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The longest wait that is worth a place in the line.
    pub max_wait: Option<Micros>,
    /// The most tickets in the line.
    pub max_line: Option<u64>,
}

impl Bounds {
    pub(crate) fn exceeded(&self, wait: Micros, in_line: u64) -> bool {
        self.max_wait.is_some_and(|most| wait > most) || self.max_line.is_some_and(|most| in_line >= most)
    }
}

/// Everything that can happen to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Take(Take),
    /// The upstream answered this ticket's request `age` ago.
    Answered {
        ticket: Ticket,
        age: Micros,
    },
    /// The request is gone. `unsent`: it certainly never went to the upstream.
    Leave {
        ticket: Ticket,
        unsent: bool,
    },
    /// The owner of the head does not show up: remove its tickets, if `head` still leads. One slice of
    /// the line at a time; `skip` is 0, and then what the slice before said.
    Evict {
        owner: Owner,
        head: Ticket,
        skip: u64,
    },
    /// Grant nothing before this instant.
    Pause {
        until: Micros,
    },
    Resume,
    Look,
}

/// A turn: the request may go when `start_in` has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub start_in: Micros,
    /// This ticket had been granted before, and the reply was lost or came too late.
    pub again: bool,
}

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub since: Micros,
    /// Tickets before this one.
    pub ahead: u64,
}

/// A place that the ticket's bounds do not allow: it did not join the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How long it would have waited.
    pub wait: Micros,
    /// Tickets before it.
    pub ahead: u64,
}

/// What an operation did for the ticket it named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted(Grant),
    Waiting(Waiting),
    Refused(Refused),
    /// One slice of an eviction is done; `next`: where the following one begins.
    Evicted {
        next: Option<u64>,
    },
    /// The operation changed the lane.
    Changed,
    /// There was nothing to change.
    Unchanged,
}

/// The first in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub ticket: Ticket,
    pub owner: Owner,
}

/// How the lane stands, relative to the `now` of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub revision: Revision,
    /// The instant by which the upstream has the last request, minus `now`; `None`: none is known.
    pub bound_in: Option<Micros>,
    /// `opens_at - now`, at most zero when the lane is open.
    pub opens_in: Micros,
    pub head: Option<Head>,
    /// Tickets in the line.
    pub waiting: u64,
}

/// The answer to every operation: what it did, and how the lane stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub look: Look,
}
