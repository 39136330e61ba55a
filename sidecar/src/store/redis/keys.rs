//! The keys of a lane: one hash tag, so that all live in one slot.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::policy::LaneKey;

/// An id of these characters and at most this length stands in the key as it is.
const MAX_PLAIN: usize = 64;

/// State, line, owners.
pub(super) fn of(lane: &LaneKey) -> [String; 3] {
    let tag = format!("turnstone:{{{}:{}}}", lane.policy, encoded(lane.client_id.as_str()));
    let (line, owners) = (format!("{tag}:line"), format!("{tag}:owners"));
    [tag, line, owners]
}

/// A raw id that is empty or starts with `}` would split the lane over two slots; a digest does not.
fn encoded(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if id.len() <= MAX_PLAIN && id.bytes().all(plain) {
        return id.to_owned();
    }
    let digest = Sha256::digest(id.as_bytes());
    digest[..16].iter().fold(String::from("~"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn plain_ids_stay_readable_and_others_cannot_meet_them() {
        assert_eq!(encoded("customer-7.eu_1"), "customer-7.eu_1");
        for id in ["}", "{}", "a b", "a:b", "~", "ü", "a\n"] {
            let key = encoded(id);
            assert!(key.starts_with('~') && key.len() == 33, "{key}");
        }
        assert_ne!(encoded("}"), encoded("{"));
    }
}
