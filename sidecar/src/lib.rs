//! The pacing service: keeps the schedule, and holds its answer until the turn comes.
//!
//! The lane (`turnstone_lane`) decides when a request may go. A [`store`] keeps lanes: in this
//! process, or in Redis for all. The [`pacer`] is the only one that sleeps.

pub mod config;
pub mod http;
pub mod metrics;
pub mod pacer;
pub mod policy;
pub mod serve;
pub mod store;
