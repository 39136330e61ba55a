//! The tickets of a lane in the order of their arrival.

use std::collections::{BTreeMap, HashMap};

use crate::types::{Head, Micros, Owner, Ticket};

/// Ordered by `since`, then by ticket. An empty line owns no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    order: BTreeMap<(Micros, Ticket), Owner>,
    since: HashMap<Ticket, Micros>,
}

impl Line {
    /// Adds a ticket, or gives a known one a new owner; its place stays.
    pub fn join(&mut self, ticket: Ticket, owner: Owner, since: Micros) -> Micros {
        let since = *self.since.entry(ticket).or_insert(since);
        self.order.insert((since, ticket), owner);
        since
    }

    pub fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(since) = self.since.remove(&ticket) else { return false };
        self.order.remove(&(since, ticket));
        if self.order.is_empty() {
            *self = Self::default();
        }
        true
    }

    /// Looks at `most` tickets after the first `skip`, and removes those of `owner`; how many it saw,
    /// and how many are gone.
    pub fn remove_some(&mut self, owner: Owner, skip: u64, most: u64) -> (u64, u64) {
        let (skip, most) = (usize::try_from(skip).unwrap_or(usize::MAX), usize::try_from(most).unwrap_or(usize::MAX));
        let seen: Vec<_> = self.order.iter().skip(skip).take(most).map(|((_, t), o)| (*t, *o)).collect();
        let gone = seen.iter().filter(|(ticket, own)| *own == owner && self.remove(*ticket)).count();
        (seen.len() as u64, gone as u64)
    }

    pub fn head(&self) -> Option<Head> {
        self.order.iter().next().map(|((_, ticket), owner)| Head { ticket: *ticket, owner: *owner })
    }

    /// The newest arrival stamp in the line.
    pub fn newest(&self) -> Option<Micros> {
        self.order.keys().next_back().map(|(since, _)| *since)
    }

    /// Tickets before this one. A new arrival is the last, at no cost; any other walks the line.
    pub fn ahead(&self, ticket: Ticket, since: Micros) -> u64 {
        let place = (since, ticket);
        if self.order.keys().next_back() == Some(&place) {
            return self.len() - 1;
        }
        self.order.range(..place).count() as u64
    }

    pub fn len(&self) -> u64 {
        self.order.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
