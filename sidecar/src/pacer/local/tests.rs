use super::*;

const PACE: Pace = Pace { interval: 5_000_000, settle: 250_000 };

fn ticket(n: u128) -> Ticket {
    Ticket::new(n).unwrap()
}

fn look(revision: Revision, bound_in: Micros, head: Option<Head>) -> Look {
    let opens_in = bound_in + PACE.interval;
    Look { revision, bound_in: Some(bound_in), opens_in, head, waiting: 1 }
}

#[test]
fn of_one_revision_the_earliest_bound_counts_and_an_old_one_is_ignored() {
    let (mut lane, t) = (LocalLane::default(), Instant::now());
    lane.learn(&look(7, 250_000, None), t, PACE);
    lane.learn(&look(7, 100_000, None), t, PACE);
    lane.learn(&look(7, 200_000, None), t, PACE);
    lane.learn(&look(6, -9_000_000, None), t, PACE);
    let evidence = lane.evidence(t + Duration::from_secs(1)).unwrap();
    assert_eq!(evidence, Evidence { revision: 7, age: 900_000 });
}

#[test]
fn only_the_first_here_has_a_timer() {
    let (mut lane, t) = (LocalLane::default(), Instant::now());
    let head = Some(Head { ticket: ticket(9), owner: Owner(2) });
    lane.learn(&look(7, 0, head), t, PACE);
    for n in [1, 2] {
        lane.seat(n, &Arc::new(Seat::new(ticket(n as u128))));
    }
    let opens = t + span(PACE.interval);
    assert_eq!(lane.ask_at(ticket(1), 1, t, PACE), Some(opens + GRACE));
    assert_eq!(lane.ask_at(ticket(2), 2, t, PACE), None);
    lane.learn(&look(7, 0, Some(Head { ticket: ticket(1), owner: Owner(1) })), t, PACE);
    assert_eq!(lane.ask_at(ticket(1), 0, t, PACE), Some(opens - ASK_EARLY));
}

#[test]
fn a_head_that_stays_away_is_nudged_and_then_evicted() {
    let (mut lane, t) = (LocalLane::default(), Instant::now());
    let head = Head { ticket: ticket(9), owner: Owner(2) };
    let late = look(7, -PACE.interval - 600_000, Some(head));
    assert_eq!(lane.complain(&late, Owner(1), t), Some(Complaint::Nudge(head)));
    assert_eq!(lane.complain(&late, Owner(1), t + PATIENCE / 2), None);
    assert_eq!(lane.complain(&late, Owner(1), t + PATIENCE), Some(Complaint::Evict(head)));
    assert_eq!(lane.complain(&late, Owner(2), t + PATIENCE), None, "never its own");
}

#[test]
fn no_turn_begins_here_within_an_interval_of_the_last_one() {
    let (mut lane, t) = (LocalLane::default(), Instant::now());
    assert_eq!(lane.floor(ticket(2), PACE), None);
    lane.let_go(ticket(1), t);
    assert_eq!(lane.floor(ticket(2), PACE), Some(t + span(PACE.interval)));
    assert_eq!(lane.floor(ticket(1), PACE), None, "the same request again: its release was lost on the way");
    assert!(!lane.is_spent(t + span(PACE.interval), PACE), "it is remembered for as long as it matters");
    lane.take_back(ticket(2));
    assert!(lane.floor(ticket(2), PACE).is_some());
    lane.take_back(ticket(1));
    assert_eq!(lane.floor(ticket(2), PACE), None);
}

#[test]
fn when_the_line_is_shorter_than_it_must_be_all_ask_again_once_a_second() {
    let (mut lane, t) = (LocalLane::default(), Instant::now());
    let seats: Vec<_> = (1..4).map(|n| Arc::new(Seat::new(ticket(n)))).collect();
    for (since, seat) in (1..).zip(&seats) {
        lane.seat(since, seat);
    }
    let orders = || seats.iter().filter(|seat| seat.take_order().is_some()).count();
    lane.mend(&Look { waiting: 3, ..look(7, 0, None) }, t);
    assert_eq!(orders(), 0);
    lane.mend(&Look { waiting: 2, ..look(7, 0, None) }, t);
    assert_eq!(orders(), 3);
    lane.mend(&Look { waiting: 2, ..look(7, 0, None) }, t + PATIENCE / 2);
    assert_eq!(orders(), 0);
    lane.mend(&Look { waiting: 2, ..look(7, 0, None) }, t + PATIENCE);
    assert_eq!(orders(), 3);
}

#[test]
fn a_lane_that_the_store_closed_is_asked_for_again_when_it_is_reopened() {
    let (mut lane, t) = (LocalLane::default(), Instant::now());
    let head = Some(Head { ticket: ticket(1), owner: Owner(1) });
    lane.learn(&Look { bound_in: None, opens_in: 5_000_000, ..look(7, 0, head) }, t, PACE);
    assert_eq!(lane.is_due(t, PACE), Some(false));
    lane.reopen();
    assert_eq!(lane.is_due(t, PACE), Some(true));
    assert_eq!(LocalLane::default().is_due(t, PACE), None);
}
