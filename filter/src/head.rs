//! The head of a request: its headers, and what they say about the body.

/// Names are lower case, as Envoy delivers them.
pub type Headers = [(String, Vec<u8>)];

const FORM: &str = "application/x-www-form-urlencoded";
const GRPC: &str = "application/grpc";

/// A view on the headers of one request.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a>(&'a Headers);

impl<'a> Head<'a> {
    pub const fn new(headers: &'a Headers) -> Self {
        Self(headers)
    }

    /// The last value of a header, where it is UTF-8.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().rev().find(|(known, _)| known == name)?;
        str::from_utf8(value).ok()
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The path without its query.
    pub fn path(&self) -> &'a str {
        let whole = self.get(":path").unwrap_or_default();
        whole.split_once('?').map_or(whole, |(path, _)| path)
    }

    pub fn query(&self) -> &'a str {
        self.get(":path").and_then(|whole| whole.split_once('?')).map_or("", |(_, query)| query)
    }

    pub fn is_form(&self) -> bool {
        self.media_type().eq_ignore_ascii_case(FORM)
    }

    /// Whoever waits for the end of this body may wait for ever: it is a conversation (CONNECT,
    /// upgrade, gRPC), or the caller waits for a go-ahead that only raven gives.
    pub fn has_no_body_to_wait_for(&self) -> bool {
        let grpc = self.media_type().get(..GRPC.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(GRPC));
        grpc || self.get(":method") == Some("CONNECT") || self.get("upgrade").is_some() || self.get("expect").is_some()
    }

    fn media_type(&self) -> &'a str {
        let whole = self.get("content-type").unwrap_or_default();
        whole.split_once(';').map_or(whole, |(kind, _)| kind).trim()
    }
}
