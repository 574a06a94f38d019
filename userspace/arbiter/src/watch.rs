// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two arbiters, one of which allocates (§5.1).
//!
//! Endpoints send their demand to both. The **active** one answers; the other one, on **standby**,
//! receives and discards it. Each sends the other its state in **beats**, ten per **window** (1 ms
//! in the paper). An arbiter that has heard of no active one for a window becomes active, without
//! any state: endpoints send it their demand anew.
//!
//! # Why no timeslot is given twice
//!
//! The timeslots that an arbiter has given begin within a lead and a batch after its last message,
//! which is far less than a window. An arbiter that does not run for a while (its process is
//! stopped, its machine pauses) might continue afterwards as if nothing had happened. So an arbiter
//! that finds that it has not run for a quarter of a window is no longer active, before it sends
//! anything else: the other's window began with its last message, or later. It then waits for a
//! window again on standby. An arbiter that starts waits for two windows, in which it learns of the
//! other one if that exists; the second one waits for three, so that they do not begin together.
//!
//! A network that separates the two from each other and from no endpoint defeats this: then both
//! are active, and endpoints obey the one that has reset them last. When beats get through again,
//! the second one yields.
//!
//! # Whose turn it is
//!
//! While both are on standby the second one waits for the first. An arbiter that stalls repeatedly
//! may announce itself, and never run for a window. So the second one waits for three windows in
//! which it hears of no active one, and then takes over when the first reports that it has only
//! begun to wait: until that one could be active there is time for several beats.
//!
//! # Authentication
//!
//! A beat contains a number of its sender that nobody else knows, its **cookie**, and must repeat
//! the receiver's. So an attacker who does not see the two's messages cannot forge any. A beat that
//! does not repeat the cookie is answered by one that repeats its sender's, so that the two learn
//! each other's cookies again when one of them restarts; this happens at most a few times in a
//! tenth of a window.
//!
//! | byte  | field    | what it is                                                                       |
//! |-------|----------|----------------------------------------------------------------------------------|
//! | 0–2   | protocol | `FCB`                                                                            |
//! | 3     | version  | 1                                                                                |
//! | 4     | rank     | 0 for the first arbiter, 1 the second                                            |
//! | 5     | state    | 0 on standby, 1 active, 2 on standby for three quarters of a window at least     |
//! | 6–7   |          | 0                                                                                |
//! | 8–15  | cookie   | the sender's                                                                     |
//! | 16–23 | echo     | the receiver's, 0 if it is not known                                             |

/// Bytes of a beat.
pub const BEAT: usize = 24;
/// Beats in a window.
const BEATS: u64 = 10;
/// Answers to unknown beats in the time between two beats.
const ANSWERS: u32 = 4;
/// Windows for which it is the first one's turn to become active: it takes two when it starts.
const TURN: u64 = 3;
const HEAD: [u8; 4] = *b"FCB\x01";

/// States, as encoded in beats.
const STANDBY: u8 = 0;
const ACTIVE: u8 = 1;
const STANDBY_FOR_LONG: u8 = 2;

/// One of two arbiters. Times in ns.
#[derive(Debug)]
pub struct Watch {
    is_second: bool,
    window: u64,
    cookie: u64,
    /// The other's cookie, since it has repeated this one's.
    other: Option<u64>,
    is_active: bool,
    /// Whether it was active at the last query.
    was_active: bool,
    /// On standby: the other one was not missing before this time.
    heard_at: u64,
    /// On standby, the second one: when the first was first heard to be on standby, too, since
    /// either of them was active.
    turn_at: Option<u64>,
    /// The first one's turn is over, and it will not be active for a while.
    takes_over: bool,
    /// When it last ran.
    ran_at: u64,
    beat_at: u64,
    /// A cookie to repeat at once, and how often that is allowed before the next beat.
    answer: Option<u64>,
    answers: u32,
}

/// The new state of an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Active, without any state.
    Active,
    /// On standby. Its state is void.
    Standby,
}

impl Watch {
    /// An arbiter that starts `now`. `cookie` is unpredictable.
    pub fn new(now: u64, is_second: bool, window: u64, cookie: u64) -> Self {
        let window = window.max(BEATS);
        Self {
            is_second,
            window,
            cookie: cookie.max(1),
            other: None,
            is_active: false,
            was_active: false,
            heard_at: now + if is_second { 2 * window } else { window },
            turn_at: None,
            takes_over: false,
            ran_at: now,
            beat_at: now,
            answer: None,
            answers: ANSWERS,
        }
    }

    /// Whether it is the one that allocates.
    pub fn is_active(&self) -> bool {
        self.is_active
    }

    /// Whether a datagram claims to be a beat.
    pub fn is_beat(bytes: &[u8]) -> bool {
        bytes.starts_with(&HEAD[..3])
    }

    /// Processes a beat from the other one's address; false if it is not valid, or not the other
    /// one's.
    pub fn receive(&mut self, now: u64, bytes: &[u8]) -> bool {
        let Some((&[h0, h1, h2, h3, rank, state, 0, 0], words)) = bytes.split_first_chunk::<8>()
        else {
            return false;
        };
        let is_others = rank == u8::from(!self.is_second) && state <= STANDBY_FOR_LONG;
        let Some((cookie, echo)) = words.split_first_chunk() else {
            return false;
        };
        let (cookie, Ok(echo)) = (u64::from_be_bytes(*cookie), echo.try_into()) else {
            return false;
        };
        if [h0, h1, h2, h3] != HEAD || !is_others || cookie == 0 {
            return false;
        }
        if u64::from_be_bytes(echo) != self.cookie {
            if let Some(left) = self.answers.checked_sub(1) {
                self.answers = left;
                self.answer = Some(cookie);
            }
            return false;
        }
        // It has restarted, and waits to be recognised.
        if self.other != Some(cookie) {
            self.other = Some(cookie);
            self.answer = Some(cookie);
        }
        match (self.is_second, self.is_active) {
            // The first one stays active, and the second will hear of it.
            (false, true) => {}
            (true, true) if state == ACTIVE => self.yield_at(now),
            (true, true) => {}
            (true, false) => self.wait_for_first(now, state),
            (false, false) if state == ACTIVE => self.heard_at = self.heard_at.max(now),
            (false, false) => {}
        }
        true
    }

    fn yield_at(&mut self, now: u64) {
        if self.is_active {
            self.is_active = false;
            self.turn_at = None;
        }
        self.takes_over = false;
        self.heard_at = self.heard_at.max(now);
    }

    /// The second one, on standby, hears from the first.
    fn wait_for_first(&mut self, now: u64, state: u8) {
        self.heard_at = self.heard_at.max(now);
        self.turn_at = match state {
            ACTIVE => None,
            _ => self.turn_at.or(Some(now)),
        };
        let turn = self.window.saturating_mul(TURN);
        let is_over = self
            .turn_at
            .is_some_and(|at| now.saturating_sub(at) >= turn);
        self.takes_over = is_over && state == STANDBY_FOR_LONG;
    }

    /// The change since the last call: call it after all received datagrams were processed, and
    /// before anything is sent.
    pub fn tick(&mut self, now: u64) -> Option<Change> {
        // For so long that the other one may be active by now.
        if now.saturating_sub(self.ran_at) > self.window / 4 {
            self.yield_at(now);
        }
        self.ran_at = now;
        if !self.is_active && self.was_active {
            self.was_active = false;
            return Some(Change::Standby);
        }
        let is_missed = now >= self.heard_at.saturating_add(self.window);
        if !self.is_active && (is_missed || self.takes_over) {
            self.is_active = true;
            self.takes_over = false;
            // It announces this at once.
            self.beat_at = now;
        }
        let is_new = self.is_active && !self.was_active;
        self.was_active = self.is_active;
        is_new.then_some(Change::Active)
    }

    /// The next beat to send; call it until there is none.
    pub fn poll(&mut self, now: u64) -> Option<[u8; BEAT]> {
        let echo = match self.answer.take() {
            Some(cookie) => cookie,
            None if self.beat_at <= now => {
                self.beat_at = now + self.window / BEATS;
                self.answers = ANSWERS;
                self.other.unwrap_or(0)
            }
            None => return None,
        };
        let mut beat = [0; BEAT];
        beat[..4].copy_from_slice(&HEAD);
        beat[4] = self.is_second.into();
        beat[5] = self.state(now);
        beat[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        beat[16..].copy_from_slice(&echo.to_be_bytes());
        Some(beat)
    }

    fn state(&self, now: u64) -> u8 {
        let waited = now.saturating_sub(self.heard_at);
        match self.is_active {
            true => ACTIVE,
            false if waited <= self.window / 4 => STANDBY_FOR_LONG,
            false => STANDBY,
        }
    }

    /// When to call [`tick`](Self::tick) and [`poll`](Self::poll), whatever arrives until then.
    pub fn next_event(&self) -> u64 {
        match self.is_active {
            true => self.beat_at,
            false => self.beat_at.min(self.heard_at + self.window),
        }
    }
}
