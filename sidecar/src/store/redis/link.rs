//! One pipelined connection, dropped for good when it fails.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::Mutex;

use super::script::Call;
use crate::store::StoreError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// After a failed attempt nobody else tries for this long: ten thousand waiters are one attempt.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Link {
    client: Client,
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
    pub fn new(client: Client) -> Self {
        Self { client, state: Mutex::default() }
    }

    /// Runs a script, sending its text where Redis does not know its hash.
    pub async fn run(&self, call: &Call<'_>) -> Result<Value, StoreError> {
        match self.query(&call.by_hash()).await {
            Err(StoreError::Refused(error)) if is_no_script(&error) => self.query(&call.whole()).await,
            other => other,
        }
    }

    /// A connection that timed out still has the command in it: it is never used again.
    pub async fn query(&self, command: &Cmd) -> Result<Value, StoreError> {
        let (number, mut connection) = self.connection().await?;
        match connection.send_packed_command(command).await {
            Ok(value) => Ok(value.extract_error().map_err(StoreError::Refused)?),
            Err(error) if answered(&error) => Err(StoreError::Refused(error)),
            Err(error) => {
                self.drop_connection(number).await;
                Err(StoreError::Unreachable(error))
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
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(COMMAND_TIMEOUT));
        match self.client.get_multiplexed_async_connection_with_config(&config).await {
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

    async fn drop_connection(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.number == number {
            state.connection = None;
        }
    }
}

/// Redis itself said no: the connection is sound.
fn answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
