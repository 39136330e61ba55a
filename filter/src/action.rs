//! What the pure core tells the shell to do.

use crate::Micros;
use crate::request::Refusal;

/// Envoy's number of a stream.
pub type Stream = u32;
/// Envoy's number of an open call.
pub type Token = u32;

/// Whether a request goes on through Envoy, or stays here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Hold,
}

/// What the shell is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Remove these request headers.
    Strip(Vec<String>),
    /// Call the sidecar for a turn of this stream.
    Ask {
        stream: Stream,
        body: Vec<u8>,
        trace: Vec<(&'static str, String)>,
    },
    /// Let the request go; `None`: unpaced, as the operator wished.
    Release {
        stream: Stream,
        turn: Option<i64>,
        waited: Micros,
    },
    Refuse {
        stream: Stream,
        refusal: Refusal,
    },
    /// Tell the sidecar; what follows the call comes back under the same number.
    Tell {
        path: &'static str,
        body: Vec<u8>,
        telling: u32,
    },
    /// Something should go out now: tick at once.
    Hurry,
    Count(Metric),
}

/// What the filter counts in Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Asked,
    Granted,
    Reasked,
    Left,
    Refused,
    MissingId,
    FailedOpen,
}

impl Metric {
    pub const ALL: [Self; 7] =
        [Self::Asked, Self::Granted, Self::Reasked, Self::Left, Self::Refused, Self::MissingId, Self::FailedOpen];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "turnstone_filter_asked",
            Self::Granted => "turnstone_filter_granted",
            Self::Reasked => "turnstone_filter_reasked",
            Self::Left => "turnstone_filter_left",
            Self::Refused => "turnstone_filter_refused",
            Self::MissingId => "turnstone_filter_missing_id",
            Self::FailedOpen => "turnstone_filter_failed_open",
        }
    }
}
