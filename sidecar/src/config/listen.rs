//! Addresses to listen on.

use std::fmt;
use std::path::PathBuf;

use super::reader::Faults;

/// A TCP address or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `host:port`; the host is resolved when the socket is opened.
    Tcp(String),
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) fn read(path: &str, text: &str, faults: &Faults) -> Option<Listen> {
    if let Some(socket) = text.strip_prefix("unix:").filter(|socket| !socket.is_empty()) {
        return Some(Listen::Unix(PathBuf::from(socket)));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && host != "unix" && port.parse::<u16>().is_ok() => {
            Some(Listen::Tcp(text.to_owned()))
        }
        _ => {
            faults.add(path, format!("is {text:?}, must be \"host:port\" or \"unix:/path/to/socket\""));
            None
        }
    }
}
