//! A cable between a client and a server that can be slow, silent, or cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Carries every connection to `far`; whatever is set holds for all of them.
#[derive(Clone, Debug)]
pub struct Cable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    near: SocketAddr,
    far: SocketAddr,
    /// Each piece towards the server waits for a random time up to this.
    delay_us: AtomicU64,
    reply_delay_us: AtomicU64,
    /// Replies vanish.
    deaf: AtomicBool,
    /// Counts cuts; connections older than the last end.
    cuts: watch::Sender<u64>,
}

impl Cable {
    pub async fn to(far: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let cable = Self(Arc::new(Shared {
            near: listener.local_addr().expect("bound"),
            far,
            delay_us: AtomicU64::new(0),
            reply_delay_us: AtomicU64::new(0),
            deaf: AtomicBool::new(false),
            cuts: watch::Sender::new(0),
        }));
        let carrying = cable.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let cable = carrying.clone();
                tokio::spawn(async move { cable.carry(near).await });
            }
        });
        cable
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.0.near
    }

    /// From now on each piece towards the server waits for a random time up to `most`.
    pub fn delay_up_to(&self, most: Duration) {
        self.0.delay_us.store(most.as_micros() as u64, Ordering::Relaxed);
    }

    /// From now on each reply waits for exactly this long.
    pub fn delay_replies(&self, time: Duration) {
        self.0.reply_delay_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Whether replies vanish; what is asked still arrives.
    pub fn deafen(&self, deaf: bool) {
        self.0.deaf.store(deaf, Ordering::Relaxed);
    }

    /// Every connection ends now; new ones are carried.
    pub fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    async fn carry(&self, near: TcpStream) {
        let Ok(far) = TcpStream::connect(self.0.far).await else { return };
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
        let mut cuts = self.0.cuts.subscribe();
        tokio::select! {
            () = self.ask(near_in, far_out) => {}
            () = self.reply(far_in, near_out) => {}
            _ = cuts.changed() => {}
        }
    }

    async fn ask(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let most = self.0.delay_us.load(Ordering::Relaxed);
            if most > 0 {
                tokio::time::sleep(Duration::from_micros(rand::random_range(0..=most))).await;
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    async fn reply(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let delay = Duration::from_micros(self.0.reply_delay_us.load(Ordering::Relaxed));
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if self.0.deaf.load(Ordering::Relaxed) {
                continue;
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }
}
