// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pause that a port asks of its neighbour.

use weft_mechanisms::port::pausing::{Pausing, Tell, MIN_RETRY};

const REFRESH: u64 = 1_000_000;

#[test]
fn a_pause_is_sent_at_once_and_repeated_until_it_is_resumed() {
    let mut pausing = Pausing::new();
    assert_eq!((pausing.next(), pausing.tell(REFRESH, 0)), (None, None));
    pausing.want(true);
    assert_eq!(pausing.next(), Some(0));
    assert_eq!(pausing.tell(REFRESH, 100), Some(Tell::Pause));
    assert_eq!(pausing.next(), Some(REFRESH + 100));
    assert_eq!(pausing.tell(REFRESH, REFRESH), None, "not yet");
    assert_eq!(pausing.tell(REFRESH, REFRESH + 150), Some(Tell::Pause));
    assert_eq!(pausing.next(), Some(2 * REFRESH + 150));
    pausing.want(false);
    assert_eq!(pausing.next(), Some(0));
    assert_eq!(pausing.tell(REFRESH, REFRESH + 200), Some(Tell::Resume));
    assert_eq!(pausing.next(), None);
}

#[test]
fn a_change_that_is_reverted_before_it_was_sent_is_not_sent() {
    let mut pausing = Pausing::new();
    pausing.want(true);
    pausing.want(false);
    assert_eq!(pausing.next(), None);
    pausing.want(true);
    assert_eq!(pausing.tell(REFRESH, 0), Some(Tell::Pause));
    pausing.want(false);
    pausing.want(true);
    assert_eq!(pausing.next(), Some(REFRESH), "when it was due");
}

#[test]
fn an_unsent_pause_is_retried_less_and_less_often() {
    let mut pausing = Pausing::new();
    pausing.want(true);
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..10 {
        assert_eq!(pausing.tell(REFRESH, now), Some(Tell::Pause));
        pausing.unsent(REFRESH, now);
        let next = pausing.next().unwrap();
        waits.push(next - now);
        now = next;
    }
    assert_eq!(waits[..3], [MIN_RETRY, 2 * MIN_RETRY, 4 * MIN_RETRY]);
    assert_eq!(waits[8..], [REFRESH, REFRESH]);
    // Once one was sent, the next failure is a first one.
    pausing.tell(REFRESH, now);
    now += REFRESH;
    pausing.tell(REFRESH, now);
    pausing.unsent(REFRESH, now);
    assert_eq!(pausing.next(), Some(now + MIN_RETRY));
}

#[test]
fn an_unsent_resume_is_retried_until_the_pause_has_ended() {
    let mut pausing = Pausing::new();
    pausing.want(true);
    pausing.tell(REFRESH, 0);
    pausing.want(false);
    let (mut now, mut waits) = (10, Vec::new());
    while let Some(next) = pausing.next() {
        waits.push(next.saturating_sub(now));
        now = now.max(next);
        // The port has no priority flow control any more.
        assert_eq!(pausing.tell(0, now), Some(Tell::Resume));
        pausing.unsent(0, now);
    }
    assert_eq!(waits[..3], [0, MIN_RETRY, 2 * MIN_RETRY]);
    assert!((2 * REFRESH..4 * REFRESH).contains(&now), "{now}");
}

#[test]
fn a_new_pause_follows_an_unsent_resume() {
    let mut pausing = Pausing::new();
    pausing.want(true);
    pausing.tell(REFRESH, 0);
    pausing.want(false);
    pausing.tell(REFRESH, 10);
    pausing.unsent(REFRESH, 10);
    pausing.want(true);
    assert_eq!(pausing.next(), Some(REFRESH), "when it was due");
}

#[test]
fn a_resume_follows_a_pause_that_may_not_have_been_sent() {
    let mut pausing = Pausing::new();
    pausing.want(true);
    pausing.tell(REFRESH, 0);
    pausing.unsent(REFRESH, 0);
    pausing.want(false);
    assert_eq!(pausing.tell(REFRESH, 5), Some(Tell::Resume));
    assert_eq!(pausing.next(), None);
}
