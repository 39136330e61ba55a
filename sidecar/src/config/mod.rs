//! The configuration: one TOML file, and what flags or environment put in its place.

mod listen;
mod policies;
mod reader;

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub use self::listen::Listen;
pub use self::reader::Fault;

use self::reader::{Faults, Section};
use crate::policy::Policies;
use crate::store;

const DEFAULT_LISTEN: &str = "127.0.0.1:7070";
const DEFAULT_ADMIN: &str = "127.0.0.1:7071";
const DEFAULT_RAMP: NonZeroU32 = NonZeroU32::new(1000).unwrap();
const MEMORY: &str = "memory";

/// Where the configuration comes from. Flags beat the environment, which beats the file.
#[derive(Clone, Debug, Default, Args)]
pub struct Sources {
    /// The TOML file
    #[arg(long, short, env = "TURNSTONE_CONFIG", global = true, default_value = "turnstone.toml")]
    pub config: PathBuf,
    /// Where filters ask: `host:port` or `unix:/path`; several by comma
    #[arg(long, env = "TURNSTONE_LISTEN", global = true, value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Health, metrics and lanes, for operators only: `host:port`
    #[arg(long, env = "TURNSTONE_ADMIN", global = true)]
    pub admin: Option<String>,
    /// The schedule: `memory`, or `redis://host:port`
    #[arg(long, env = "TURNSTONE_STORE", global = true)]
    pub store: Option<String>,
    /// How to log
    #[arg(long, env = "TURNSTONE_LOG", global = true)]
    pub log: Option<Log>,
}

/// Everything the process needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub listen: Vec<Listen>,
    pub admin: Listen,
    pub store: StoreUrl,
    pub log: Log,
    /// Held calls that go per second when more than that are due at once.
    pub ramp: NonZeroU32,
    pub policies: Policies,
}

/// Where the schedule lives.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    Memory,
    Redis(String),
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Log {
    #[default]
    Human,
    Json,
}

/// The configuration is refused; here is everything that is wrong with it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin} is refused:\n{}", .faults.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n"))]
pub struct Refused {
    pub origin: String,
    pub faults: Vec<Fault>,
}

impl Sources {
    /// Reads the file and puts flags and environment over it.
    ///
    /// # Errors
    /// The file cannot be read, or anything in it is wrong; all faults are named.
    pub fn load(&self) -> Result<Config, Refused> {
        let origin = self.config.display().to_string();
        let refused = |path: &str, message: String| Refused {
            origin: origin.clone(),
            faults: vec![Fault { path: path.to_owned(), message }],
        };
        let text = std::fs::read_to_string(&self.config)
            .map_err(|error| refused("the file", format!("{error}; name it by --config or TURNSTONE_CONFIG")))?;
        let table = text.parse().map_err(|error: toml::de::Error| refused("syntax", error.to_string()))?;
        self.read(table).map_err(|faults| Refused { origin, faults })
    }

    fn read(&self, table: toml::Table) -> Result<Config, Vec<Fault>> {
        let faults = Faults::default();
        let mut root = Section::root(table, &faults);
        let listen = root.texts("listen").unwrap_or_else(|| vec![DEFAULT_LISTEN.to_owned()]);
        let listen = if self.listen.is_empty() { listen } else { self.listen.clone() };
        let admin = root.text("admin").unwrap_or_else(|| DEFAULT_ADMIN.to_owned());
        let store = root.text("store").unwrap_or_else(|| MEMORY.to_owned());
        let log = root.text("log").and_then(|text| read_log(&text, &faults));
        let ramp = root.count("ramp").map_or(Some(DEFAULT_RAMP), |count| read_ramp(count, &faults));
        let policies = policies::read(&mut root, &faults);
        root.finish();

        let config = Config {
            listen: listen.iter().filter_map(|text| listen::read("listen", text, &faults)).collect(),
            admin: listen::read("admin", self.admin.as_ref().unwrap_or(&admin), &faults)
                .unwrap_or_else(|| Listen::Tcp(DEFAULT_ADMIN.to_owned())),
            store: read_store(self.store.as_ref().unwrap_or(&store), &faults),
            log: self.log.or(log).unwrap_or_default(),
            ramp: ramp.unwrap_or(DEFAULT_RAMP),
            policies,
        };
        let faults = faults.into_inner();
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }
}

fn read_log(text: &str, faults: &Faults) -> Option<Log> {
    let log = Log::from_str(text, false).ok();
    if log.is_none() {
        faults.add("log", format!("is {text:?}, must be \"human\" or \"json\""));
    }
    log
}

fn read_ramp(count: u64, faults: &Faults) -> Option<NonZeroU32> {
    let ramp = u32::try_from(count).ok().and_then(NonZeroU32::new);
    if ramp.is_none() {
        faults.add("ramp", format!("is {count}, must be the number of requests per second, at least 1"));
    }
    ramp
}

fn read_store(text: &str, faults: &Faults) -> StoreUrl {
    if text == MEMORY {
        return StoreUrl::Memory;
    }
    // The text may hold a password: it is not repeated.
    if text.starts_with("redis+sentinel:") && store::redis::check(text).is_err() {
        faults.add("store", format!("must be of the form \"{}\"", store::redis::SENTINEL_FORM));
    } else if !text.starts_with("redis") || store::redis::check(text).is_err() {
        faults.add("store", "must be \"memory\" or a URL like \"redis://:password@host:6379/0\"");
    }
    StoreUrl::Redis(text.to_owned())
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without user and password, so that it may be logged.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str(MEMORY),
            Self::Redis(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                write!(f, "{scheme}://{host}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
