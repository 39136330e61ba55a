//! Where one held call sits, and how others reach it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;
use turnstone_lane::Ticket;

/// One held call.
#[derive(Debug)]
pub(super) struct Seat {
    pub ticket: Ticket,
    fate: AtomicU8,
    must_ask: AtomicBool,
    signal: Notify,
}

/// Why a call ends before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    /// The request is gone.
    Left = 1,
    /// The same ticket asks by a newer call, or this process goes away: ask again.
    Released = 2,
}

impl Seat {
    pub fn new(ticket: Ticket) -> Self {
        Self { ticket, fate: AtomicU8::new(0), must_ask: AtomicBool::new(false), signal: Notify::new() }
    }

    pub fn fate(&self) -> Option<Fate> {
        match self.fate.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Fate::Left),
            _ => Some(Fate::Released),
        }
    }

    pub fn end(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::Release);
        self.rouse();
    }

    /// Its place may be lost: the holder asks now, whenever its turn may be.
    pub fn must_ask(&self) {
        self.must_ask.store(true, Ordering::Release);
        self.rouse();
    }

    /// Whether it must ask; answers yes only once.
    pub fn takes_order(&self) -> bool {
        self.must_ask.swap(false, Ordering::AcqRel)
    }

    /// Makes the holder look again at what it should do.
    pub fn rouse(&self) {
        self.signal.notify_one();
    }

    /// Returns when somebody roused this seat, also if that was before the call.
    pub async fn roused(&self) {
        self.signal.notified().await;
    }
}
