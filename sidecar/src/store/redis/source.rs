//! Where the master is: a fixed address, or whatever the Sentinels say.

use percent_encoding::percent_decode_str;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ErrorKind, RedisError};
use tokio::sync::Mutex;

const SENTINEL: &str = "redis+sentinel://";
const SENTINEL_PORT: u16 = 26379;
/// What a Sentinel URL looks like.
pub const SENTINEL_FORM: &str = "redis+sentinel://[user:password@]host:26379,host:26379/master-name[/db]";

pub(super) enum Source {
    Node(Client),
    Sentinels(Box<Mutex<SentinelClient>>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Node(_) => "Node",
            Self::Sentinels(_) => "Sentinels",
        })
    }
}

impl Source {
    pub fn parse(url: &str) -> Result<Self, RedisError> {
        match url.strip_prefix(SENTINEL) {
            Some(rest) => sentinels(rest).map(|client| Self::Sentinels(Box::new(Mutex::new(client)))),
            None => Client::open(url).map(Self::Node),
        }
    }

    /// The master's address at this moment; a node that says it is none is not taken.
    pub async fn master(&self) -> Result<Client, RedisError> {
        match self {
            Self::Node(client) => Ok(client.clone()),
            Self::Sentinels(sentinels) => sentinels.lock().await.async_get_client().await,
        }
    }
}

fn sentinels(rest: &str) -> Result<SentinelClient, RedisError> {
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    let (hosts, path) = rest.split_once('/').ok_or_else(|| malformed("there is no master name"))?;
    let (name, db) = path.split_once('/').map_or((path, None), |(name, db)| (name, Some(db)));
    if name.is_empty() {
        return Err(malformed("there is no master name"));
    }
    let addresses = hosts.split(',').map(address).collect::<Result<Vec<_>, _>>()?;
    let mut builder = SentinelClientBuilder::new(addresses, name, SentinelServerType::Master)?;
    if let Some(db) = db {
        builder = builder.set_client_to_redis_db(db.parse().map_err(|_| malformed("the database is a number"))?);
    }
    if let Some((user, password)) = login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        let plain = |text| percent_decode_str(text).decode_utf8_lossy();
        if !user.is_empty() {
            builder = builder.set_client_to_redis_username(plain(user));
        }
        builder = builder.set_client_to_redis_password(plain(password));
    }
    builder.build()
}

fn address(host: &str) -> Result<ConnectionAddr, RedisError> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().map_err(|_| malformed("a port is a number"))?),
        None => (host, SENTINEL_PORT),
    };
    if name.is_empty() { Err(malformed("a host is empty")) } else { Ok(ConnectionAddr::Tcp(name.to_owned(), port)) }
}

fn malformed(why: &'static str) -> RedisError {
    RedisError::from((
        ErrorKind::InvalidClientConfig,
        "a Sentinel URL is malformed",
        format!("{why}; write {SENTINEL_FORM}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn sentinel_urls() {
        for right in ["a:1,b:2,c/main", "user:p@ss@a/main/3", ":secret@a:1/main"] {
            assert!(matches!(Source::parse(&format!("redis+sentinel://{right}")), Ok(Source::Sentinels(_))), "{right}");
        }
        for wrong in ["a:1", "a:1/", ":1/main", "a:x/main", "a/main/x"] {
            let error = Source::parse(&format!("redis+sentinel://{wrong}")).unwrap_err();
            assert!(error.to_string().contains("master-name"), "{wrong}: {error}");
        }
    }
}
