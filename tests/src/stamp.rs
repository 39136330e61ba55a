//! When the kernel received bytes, on this process' monotonic clock.

use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

/// Translates the kernel's wall clock stamps; measured once, so that a pause between two clocks'
/// readings cannot bend a gap.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    wall: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let sample = |_| {
            let before = Instant::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            (before.elapsed(), before, wall)
        };
        let (_, instant, wall) = (0..100).map(sample).min_by_key(|(took, ..)| *took).expect("samples");
        Self { instant, wall }
    }

    fn at(&self, wall: Duration) -> Instant {
        if wall >= self.wall { self.instant + (wall - self.wall) } else { self.instant - (self.wall - wall) }
    }
}

/// Asks the kernel to stamp what the connections of this listener receive, from their first byte on.
pub fn enable(listener: &TcpListener) -> io::Result<()> {
    Ok(setsockopt(listener, sockopt::ReceiveTimestampns, &true)?)
}

/// Reads once; zero bytes at the end. The stamp is the kernel's.
pub async fn read(stream: &TcpStream, buffer: &mut [u8], clock: Clock) -> io::Result<(usize, Instant)> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || receive(stream, buffer, clock)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

fn receive(stream: &TcpStream, buffer: &mut [u8], clock: Clock) -> io::Result<(usize, Instant)> {
    let mut room = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut room), MsgFlags::empty())?;
    let stamp = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    });
    match (message.bytes, stamp) {
        (0, _) => Ok((0, Instant::now())),
        (bytes, Some(stamp)) => Ok((bytes, clock.at(stamp))),
        (_, None) => Err(io::Error::other("the kernel gave no stamp")),
    }
}
