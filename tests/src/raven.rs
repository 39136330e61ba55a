//! Raven: a bare TCP server. The kernel stamps the first byte of each request.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::stamp;

const BACKLOG: u32 = 4096;
const MAX_HEADERS: usize = 64;

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When the kernel received its first byte.
    pub at: Instant,
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// A running raven.
#[derive(Clone, Debug)]
pub struct Raven(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    clock: stamp::Clock,
    arrivals: Mutex<Vec<Arrival>>,
    bytes: AtomicU64,
    answer_after_us: AtomicU64,
    failures: AtomicU64,
}

impl Raven {
    pub async fn start() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let listener = socket.listen(BACKLOG).expect("a listener");
        stamp::enable(&listener).expect("kernel stamps");
        let raven = Self(Arc::new(Shared {
            address: listener.local_addr().expect("bound"),
            clock: stamp::Clock::start(),
            arrivals: Mutex::default(),
            bytes: AtomicU64::new(0),
            answer_after_us: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }));
        let listener = listener.into_std().expect("a listener");
        let serving = raven.clone();
        // A thread of its own: thousands of callers in this process must not slow raven down.
        std::thread::spawn(move || serving.serve(listener));
        raven
    }

    /// Until the last handle besides this one is gone.
    fn serve(self, listener: std::net::TcpListener) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let (raven, gone) = (Arc::downgrade(&self.0), Duration::from_secs(1));
            drop(self);
            loop {
                let accepted = timeout(gone, listener.accept()).await;
                let Some(raven) = raven.upgrade().map(Self) else { return };
                if let Ok(Ok((stream, _))) = accepted {
                    tokio::spawn(async move { raven.converse(stream).await });
                }
            }
        });
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Raven takes this long to answer.
    pub fn answer_after(&self, time: Duration) {
        self.0.answer_after_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// The next `count` answers are 503.
    pub fn fail(&self, count: u64) {
        self.0.failures.store(count, Ordering::Relaxed);
    }

    /// Every request so far, in order of arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = self.0.arrivals.lock().expect("no panic while locked").clone();
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    pub fn count(&self) -> usize {
        self.0.arrivals.lock().expect("no panic while locked").len()
    }

    /// Bytes received so far, of whatever kind.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut input = Input { buffer: Vec::new(), first_byte: None, clock: self.0.clock };
        loop {
            let Some(head) = input.head(&mut stream, &self.0.bytes).await? else { return Ok(()) };
            let at = input.first_byte.expect("a head has a first byte");
            if head.headers.get("expect").is_some_and(|expect| expect == "100-continue") {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
            let upgrades = head.headers.contains_key("upgrade");
            let body = input.body(&head, &mut stream, &self.0.bytes).await?;
            input.first_byte = None;
            let Head { method, path, headers, .. } = head;
            self.0.arrivals.lock().expect("no panic while locked").push(Arrival { at, method, path, headers, body });
            let delay = Duration::from_micros(self.0.answer_after_us.load(Ordering::Relaxed));
            // A sleep of nothing takes a millisecond.
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if upgrades {
                let switched =
                    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nnever";
                return stream.write_all(switched.as_bytes()).await;
            }
            let fails = self.0.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            let status = if fails.is_ok() { "503 Service Unavailable" } else { "200 OK" };
            stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 5\r\n\r\nnever").as_bytes()).await?;
        }
    }
}

struct Head {
    method: String,
    path: String,
    headers: HashMap<String, String>,
    length: usize,
}

/// What came in and is not used up yet.
struct Input {
    buffer: Vec<u8>,
    first_byte: Option<Instant>,
    clock: stamp::Clock,
}

impl Input {
    async fn more(&mut self, stream: &mut TcpStream, bytes: &AtomicU64) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let (read, at) = stamp::read(stream, &mut chunk, self.clock).await?;
        if read > 0 {
            self.buffer.extend_from_slice(&chunk[..read]);
            self.first_byte.get_or_insert(at);
            bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read > 0)
    }

    async fn head(&mut self, stream: &mut TcpStream, bytes: &AtomicU64) -> io::Result<Option<Head>> {
        assert!(self.buffer.is_empty(), "Envoy does not pipeline");
        loop {
            if let Some(head) = parse(&self.buffer)? {
                self.buffer.drain(..head.length);
                return Ok(Some(head));
            }
            if !self.more(stream, bytes).await? {
                return Ok(None);
            }
        }
    }

    async fn body(&mut self, head: &Head, stream: &mut TcpStream, bytes: &AtomicU64) -> io::Result<Vec<u8>> {
        if head.headers.get("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            let mut body = Vec::new();
            loop {
                let size = self.line(stream, bytes).await?;
                let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                let chunk = self.exactly(size + 2, stream, bytes).await?;
                body.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = head.headers.get("content-length").map_or(Ok(0), |length| length.parse());
        self.exactly(length.map_err(io::Error::other)?, stream, bytes).await
    }

    async fn line(&mut self, stream: &mut TcpStream, bytes: &AtomicU64) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.more_or_broken(stream, bytes).await?;
        }
    }

    async fn exactly(&mut self, length: usize, stream: &mut TcpStream, bytes: &AtomicU64) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.more_or_broken(stream, bytes).await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn more_or_broken(&mut self, stream: &mut TcpStream, bytes: &AtomicU64) -> io::Result<()> {
        if self.more(stream, bytes).await? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn parse(buffer: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(buffer).map_err(io::Error::other)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(length) => {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers = request.headers.iter().map(|h| (h.name.to_lowercase(), text(h.value))).collect();
            let method = request.method.unwrap_or_default().to_owned();
            Ok(Some(Head { method, path: request.path.unwrap_or_default().to_owned(), headers, length }))
        }
    }
}
