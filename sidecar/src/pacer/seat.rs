//! Where one held call sits, and how others reach it.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use turnstone_lane::Ticket;

/// One held call.
#[derive(Debug)]
pub(super) struct Seat {
    pub ticket: Ticket,
    fate: AtomicU8,
    order: AtomicU8,
    signal: Notify,
}

/// Why a holder asks now, whenever its turn may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    /// Its place may be lost: it asks for its place, and for its turn when that comes.
    Join = 1,
    /// Others wait for it to go.
    Go = 2,
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
        Self { ticket, fate: AtomicU8::new(0), order: AtomicU8::new(0), signal: Notify::new() }
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

    /// The weightier of two orders counts.
    pub fn order(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.rouse();
    }

    /// What it was told; says it only once.
    pub fn take_order(&self) -> Option<Order> {
        match self.order.swap(0, Ordering::AcqRel) {
            0 => None,
            1 => Some(Order::Join),
            _ => Some(Order::Go),
        }
    }

    /// Others wait for it to go.
    pub fn must_go(&self) -> bool {
        self.order.load(Ordering::Acquire) == Order::Go as u8
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
