//! The key of a lane, as it travels.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Ids above this many bytes are replaced by a digest, so that no id can burden the schedule.
const MAX_BYTES: usize = 512;

/// A client id: at most 512 bytes of UTF-8; the empty one stands for requests that name nobody.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ClientId(String);

impl ClientId {
    /// `None` for the empty text, which names nobody. A longer id becomes `sha256:` and its digest.
    pub fn new(text: &str) -> Option<Self> {
        match text.len() {
            0 => None,
            1..=MAX_BYTES => Some(Self(text.to_owned())),
            _ => Some(Self(format!("sha256:{}", hex(&Sha256::digest(text.as_bytes()))))),
        }
    }

    /// The id of the lane that all requests without an id share. No client can bear it.
    pub const fn missing() -> Self {
        Self(String::new())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<ClientId> for String {
    fn from(id: ClientId) -> Self {
        id.0
    }
}

impl From<String> for ClientId {
    fn from(text: String) -> Self {
        Self::new(&text).unwrap_or(Self::missing())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::ClientId;

    #[test]
    fn an_empty_id_names_nobody() {
        assert_eq!(ClientId::new(""), None);
        assert_eq!(serde_json::from_str::<ClientId>("\"\"").unwrap(), ClientId::missing());
    }

    #[test]
    fn long_ids_are_shortened_and_stay_apart() {
        let long = |c: &str| ClientId::new(&c.repeat(1 << 20)).unwrap();
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
        assert_eq!(long("a").as_str().len(), "sha256:".len() + 64);
    }

    #[test]
    fn any_text_stays_itself() {
        for text in ["}", "{}", "a:b", " ", "a\nb", "a\0b", "🦀"] {
            let id = ClientId::new(text).unwrap();
            let wire = serde_json::to_string(&id).unwrap();
            assert_eq!(serde_json::from_str::<ClientId>(&wire).unwrap().as_str(), text);
        }
    }
}
