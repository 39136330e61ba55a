//! The lines as they move: redrawn in a terminal, else one line per event.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use turnstone_tests::verdict::Lanes;
use turnstone_tests::world::World;

use crate::load::{End, Load, Request};

const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// Returns when every request has ended.
pub async fn watch(world: &World, load: &Load, begun: Instant) {
    let drawing = stdout().is_terminal();
    let mut lines_drawn = 0;
    let mut said = 0;
    loop {
        let over = load.is_over();
        let lanes = Lanes::of(&world.raven.arrivals());
        if drawing {
            lines_drawn = redraw(&load.requests(), &lanes, begun.elapsed(), lines_drawn);
        } else {
            said = say_new(world, begun, said);
        }
        if over {
            return;
        }
        tokio::time::sleep(REDRAW_EVERY).await;
    }
}

fn redraw(requests: &[Request], lanes: &Lanes, now: Duration, lines_drawn: usize) -> usize {
    let mut text = if lines_drawn > 0 { format!("\x1b[{lines_drawn}A") } else { String::new() };
    text += &format!("\x1b[2K  {:6.1} s\n", now.as_secs_f64());
    let clients = clients(requests);
    for client in &clients {
        let (arrived, waiting) = (lanes.lane(client).len(), waiting(requests, lanes, client));
        text += &format!("\x1b[2K  {client:>6}  in line {:<6} at raven {}\n", "○".repeat(waiting), "●".repeat(arrived));
    }
    let mut out = stdout().lock();
    // A terminal that is gone has nobody to show anything to.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
    clients.len() + 1
}

fn say_new(world: &World, begun: Instant, said: usize) -> usize {
    let arrivals = world.raven.arrivals();
    for arrival in &arrivals[said..] {
        let at = (arrival.at - begun).as_secs_f64();
        println!("  {at:6.2} s  at raven: {}", String::from_utf8_lossy(&arrival.body));
    }
    arrivals.len()
}

fn waiting(requests: &[Request], lanes: &Lanes, client: &str) -> usize {
    let arrived = lanes.order(client);
    let waits = |request: &&Request| {
        let gone = matches!(request.end, Some(End::GaveUp { .. }));
        request.client == client && !gone && !arrived.contains(&request.number)
    };
    requests.iter().filter(waits).count()
}

fn clients(requests: &[Request]) -> Vec<&'static str> {
    let mut clients: Vec<_> = requests.iter().map(|request| request.client).collect();
    clients.sort_unstable();
    clients.dedup();
    clients
}
