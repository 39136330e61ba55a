//! Hints from sidecar to sidecar by pub/sub. All is correct, only less tight, when every one is lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::{Cmd, RedisError};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use turnstone_lane::{Micros, Owner, Revision};
use turnstone_protocol::ClientId;

use crate::policy::LaneKey;
use crate::store::{Hint, Wake};

use super::source::Source;

const RESUBSCRIBE_AFTER: Duration = Duration::from_millis(250);

#[derive(Serialize, Deserialize)]
struct Message {
    policy: String,
    client_id: ClientId,
    ticket: String,
    revision: Revision,
    bound_in: Option<Micros>,
    opens_in: Micros,
}

pub(super) fn publish(owner: Owner, wake: &Wake) -> Cmd {
    let message = Message {
        policy: wake.lane.policy.to_string(),
        client_id: (*wake.lane.client_id).clone(),
        ticket: wake.ticket.to_string(),
        revision: wake.revision,
        bound_in: wake.bound_in,
        opens_in: wake.opens_in,
    };
    let mut command = redis::cmd("PUBLISH");
    command.arg(channel(owner)).arg(serde_json::to_vec(&message).unwrap_or_default());
    command
}

/// Subscribes to this process' channel, again and again, until nobody listens.
pub(super) fn listen(source: Arc<Source>, owner: Owner, hints: mpsc::Sender<Hint>) {
    tokio::spawn(async move {
        while !hints.is_closed() {
            if let Err(error) = subscribe(&source, owner, &hints).await {
                tracing::debug!(%error, "no wake-ups for now; timers stand in");
            }
            tokio::time::sleep(RESUBSCRIBE_AFTER).await;
        }
    });
}

async fn subscribe(source: &Source, owner: Owner, hints: &mpsc::Sender<Hint>) -> Result<(), RedisError> {
    let mut pubsub = source.master().await?.get_async_pubsub().await?;
    pubsub.subscribe(channel(owner)).await?;
    let mut messages = pubsub.into_on_message();
    loop {
        tokio::select! {
            () = hints.closed() => return Ok(()),
            message = messages.next() => {
                let Some(message) = message else { return Ok(()) };
                if let Some(wake) = read(message.get_payload_bytes()) {
                    let _ = hints.try_send(Hint::Wake(wake));
                }
            }
        }
    }
}

fn read(payload: &[u8]) -> Option<Wake> {
    let message: Message = serde_json::from_slice(payload).ok()?;
    Some(Wake {
        lane: LaneKey { policy: message.policy.into(), client_id: message.client_id.into() },
        ticket: message.ticket.parse().ok()?,
        revision: message.revision,
        bound_in: message.bound_in,
        opens_in: message.opens_in,
    })
}

fn channel(owner: Owner) -> String {
    format!("turnstone:wake:{owner}")
}
