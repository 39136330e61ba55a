//! Serves a router on a socket until told to stop.

use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::config::Listen;

/// One held call is one stream; Envoy opens a further connection about every thousand.
const MAX_STREAMS: u32 = 100_000;
/// A person who hangs up sends no reset to us, but a dying Envoy resets everything at once.
const MAX_RESETS: usize = 100_000;
/// After the last answers, connections get this long to close.
const GOODBYE: Duration = Duration::from_secs(3);
/// Out of file descriptors: wait for some to come back.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A socket that accepts connections.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    /// Opens the socket. A Unix socket that a former process left behind is replaced.
    ///
    /// # Errors
    /// The address is taken, or may not be used; the message names it.
    pub async fn open(listen: &Listen) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"));
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp).map_err(named),
            Listen::Unix(path) => {
                if tokio::net::UnixStream::connect(path).await.is_err() {
                    let _ = std::fs::remove_file(path);
                }
                UnixListener::bind(path).map(Self::Unix).map_err(named)
            }
        }
    }

    /// Where it listens in fact: port 0 has become a real one.
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string())
            }
            Self::Unix(listener) => match listener.local_addr() {
                Ok(address) => format!("unix:{}", address.as_pathname().unwrap_or(Path::new("")).display()),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Serves HTTP/1.1 and HTTP/2 cleartext until `stop`, then says goodbye to every connection.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&router, &graceful) => accepted,
                () = &mut stop => break,
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
        drop(self);
        if tokio::time::timeout(GOODBYE, graceful.shutdown()).await.is_err() {
            tracing::warn!("closed connections that did not say goodbye in time");
        }
    }

    async fn accept(&self, router: &Router, graceful: &GracefulShutdown) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it a small answer may wait 40 ms for an acknowledgement.
                stream.set_nodelay(true)?;
                converse(stream, router.clone(), graceful);
            }
            Self::Unix(listener) => converse(listener.accept().await?.0, router.clone(), graceful),
        }
        Ok(())
    }
}

fn converse<S>(stream: S, router: Router, graceful: &GracefulShutdown)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESETS);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "a connection broke");
        }
    });
}
