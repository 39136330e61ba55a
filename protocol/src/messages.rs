//! The bodies of the calls and of their answers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::ClientId;

/// `POST /v1/turns`: a turn for one request. Repeated with the same ticket until granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRequest {
    pub policy: String,
    pub client_id: ClientId,
    /// 32 hex digits, made by the filter.
    pub ticket: String,
    /// The arrival stamp that an earlier answer named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// How long ago the filter first asked for this ticket; places a ticket that has no stamp yet.
    #[serde(default)]
    pub age_us: u64,
    /// How long the call may be held; the sidecar's own bound where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The answer to [`TurnRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum TurnReply {
    /// 200, at the very moment that the request may go.
    Granted(Granted),
    /// 202: ask again at once, same ticket.
    Waiting(Waiting),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// How long this sidecar held the call.
    pub waited_ms: u64,
    /// The revision of the lane: rises with every turn.
    pub turn: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The ticket's arrival stamp; absent as long as the store could not be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Tickets before this one.
    pub ahead: u64,
    /// Estimated time until the turn.
    pub eta_ms: u64,
}

/// One entry of `POST /v1/answers`: the upstream's response headers arrived `age_us` ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub policy: String,
    pub client_id: ClientId,
    pub ticket: String,
    pub age_us: u64,
}

/// One entry of `POST /v1/leaves`: the request is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    pub policy: String,
    pub client_id: ClientId,
    pub ticket: String,
    /// It certainly never went to the upstream: a turn it was given is given back.
    pub unsent: bool,
}

/// An RFC 9457 problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub status: u16,
    pub detail: String,
}

impl Problem {
    /// `kind` is the last part of the problem's URN.
    pub fn new(kind: &str, title: &'static str, status: u16, detail: impl Into<String>) -> Self {
        let kind = Cow::Owned(format!("urn:turnstone:problem:{kind}"));
        Self { kind, title: Cow::Borrowed(title), status, detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Granted, TurnReply, Waiting};

    #[test]
    fn replies_name_their_state() {
        let granted = TurnReply::Granted(Granted { waited_ms: 5, turn: 9 });
        let text = r#"{"state":"granted","waited_ms":5,"turn":9}"#;
        assert_eq!(serde_json::to_string(&granted).unwrap(), text);
        let waiting = TurnReply::Waiting(Waiting { since: Some(1), ahead: 2, eta_ms: 3 });
        let text = r#"{"state":"waiting","since":1,"ahead":2,"eta_ms":3}"#;
        assert_eq!(serde_json::from_str::<TurnReply>(text).unwrap(), waiting);
    }
}
