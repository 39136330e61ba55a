//! The calls to the sidecar that are open.

use std::collections::HashMap;

use crate::action::{Stream, Token};

/// Why a call is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Ask(Stream),
    Tell(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    by_token: HashMap<Token, Call>,
    asks: HashMap<Stream, Token>,
}

impl Calls {
    pub fn open(&mut self, token: Token, call: Call) {
        self.by_token.insert(token, call);
        if let Call::Ask(stream) = call {
            self.asks.insert(stream, token);
        }
    }

    /// A call ended; `None`: it is one that was forgotten.
    pub fn end(&mut self, token: Token) -> Option<Call> {
        let call = self.by_token.remove(&token)?;
        if let Call::Ask(stream) = call {
            self.asks.remove(&stream);
        }
        Some(call)
    }

    /// The stream is gone. Envoy does not cancel its call, and nobody may be there to hear the reply.
    pub fn forget(&mut self, stream: Stream) {
        if let Some(token) = self.asks.remove(&stream) {
            self.by_token.remove(&token);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_token.is_empty() && self.asks.is_empty()
    }
}
