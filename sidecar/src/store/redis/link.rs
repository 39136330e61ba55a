//! One pipelined connection, dropped for good when it fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::script::Call;
use super::source::Source;
use crate::store::StoreError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// With the questions to the Sentinels, and the master's own word that it is one.
const FIND_TIMEOUT: Duration = Duration::from_secs(3);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// After a failed attempt nobody else tries for this long: ten thousand waiters are one attempt.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Link {
    source: Arc<Source>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// Counts connections, so that only the one that failed is dropped.
    number: u64,
    failed: Option<Instant>,
}

impl Link {
    pub fn new(source: Arc<Source>) -> Self {
        Self { source, state: Mutex::default() }
    }

    /// Runs a script, sending its text where Redis does not know its hash.
    pub async fn run(&self, call: &Call<'_>) -> Result<Value, StoreError> {
        match self.query(&call.by_hash()).await {
            Err(StoreError::Refused(error)) if is_no_script(&error) => self.query(&call.whole()).await,
            other => other,
        }
    }

    /// A connection that timed out still has the command in it: it is never used again. Neither is one
    /// to a node that is no master any more.
    pub async fn query(&self, command: &Cmd) -> Result<Value, StoreError> {
        let (number, mut connection) = self.connection().await?;
        match connection.send_packed_command(command).await.and_then(Value::extract_error) {
            Ok(value) => Ok(value),
            Err(error) if answered(&error) && !serves_nobody(&error) => Err(StoreError::Refused(error)),
            Err(error) => {
                // Of all that were under way on it, one failure is news.
                if self.drop_connection(number).await {
                    Err(StoreError::Unreachable(error))
                } else {
                    Err(StoreError::Away)
                }
            }
        }
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), StoreError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            return Ok((state.number, connection.clone()));
        }
        if state.failed.is_some_and(|at| at.elapsed() < PAUSE_AFTER_FAILURE) {
            return Err(StoreError::Away);
        }
        let timed_out = |_| RedisError::from((ErrorKind::Io, "no master was found in time"));
        match timeout(FIND_TIMEOUT, self.connect()).await.unwrap_or_else(|late| Err(timed_out(late))) {
            Ok(connection) => {
                state.number += 1;
                state.connection = Some(connection.clone());
                Ok((state.number, connection))
            }
            Err(error) => {
                state.failed = Some(Instant::now());
                Err(StoreError::Unreachable(error))
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(COMMAND_TIMEOUT));
        self.source.master().await?.get_multiplexed_async_connection_with_config(&config).await
    }

    /// False: somebody else has dropped it before.
    async fn drop_connection(&self, number: u64) -> bool {
        let mut state = self.state.lock().await;
        state.number == number && state.connection.take().is_some()
    }
}

/// Redis itself said no: the connection is sound.
fn answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

/// It is a replica, is still loading, or lost its replicas and was told to stop then: another may be
/// the master now.
fn serves_nobody(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, MasterDown, ReadOnly};
    matches!(error.kind(), ErrorKind::Server(BusyLoading | MasterDown | ReadOnly)) || error.code() == Some("NOREPLICAS")
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
