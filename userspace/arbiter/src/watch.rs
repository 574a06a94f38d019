// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two arbiters, of which one allocates (§5.1).
//!
//! Endpoints tell both what they want; the one that is **active** answers, the other one, on
//! **standby**, hears and forgets. Each tells the other which it is, in **beats**, ten in the time
//! of a **window** (1 ms in the paper). Who has heard of no active one for a window is active from
//! then on, and knows nothing: endpoints tell it anew what they want.
//!
//! # Why no timeslot is given twice
//!
//! What an arbiter has given begins a lead and a batch after its last word at the latest, which is
//! far less than a window. One that does not run for a while (its process is stopped, its machine
//! pauses) might go on afterwards as if nothing had been. So one that finds that it has not run for
//! a quarter of a window is active no longer, before it says anything else: when it spoke last, the
//! other's window began, or later. And on standby it waits for a window anew. One that starts waits
//! for two windows, in which it gets to know the other one if that is there; the second one for
//! three, so that they do not begin together.
//!
//! What this cannot help is a network that separates the two from each other and from no endpoint:
//! then both are active, and endpoints heed whoever has reset them last. When beats get through
//! again, the second one yields.
//!
//! # Whose turn it is
//!
//! While both are on standby the second one waits for the first. One that stands still again and
//! again may say that it is there, and never run for a window. So the second one waits for three
//! windows in which it hears of no active one, and then takes over when the first says that it has
//! only begun to wait: until that one could be active there is time for several beats.
//!
//! # Who is heeded
//!
//! A beat has a number of its sender's that nobody else knows, its **cookie**, and must repeat the
//! receiver's. Who does not see what the two say can say nothing in their names. A beat that does
//! not repeat it is answered by one that repeats its sender's, so that the two come to know each
//! other again when one of them restarts; a few times in a tenth of a window.
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
/// Windows in which it is the first one's turn to become active: it takes two when it starts.
const TURN: u64 = 3;
const HEAD: [u8; 4] = *b"FCB\x01";

/// States, as beats tell them.
const STANDBY: u8 = 0;
const ACTIVE: u8 = 1;
const STANDBY_FOR_LONG: u8 = 2;

/// One of two arbiters. Times in ns.
#[derive(Debug)]
pub struct Watch {
    is_second: bool,
    window: u64,
    cookie: u64,
    /// The other's, since it has repeated this one's.
    other: Option<u64>,
    is_active: bool,
    /// Whether it was when that was last asked.
    was_active: bool,
    /// On standby: the other one was not missed before then.
    heard_at: u64,
    /// On standby, the second one: when the first was first heard to be on standby, too, since one
    /// of them was active.
    turn_at: Option<u64>,
    /// The first one's turn is over, and it will not be active for a while.
    takes_over: bool,
    /// When it last ran.
    ran_at: u64,
    beat_at: u64,
    /// A cookie to be repeated at once, and how often that may be done before the next beat.
    answer: Option<u64>,
    answers: u32,
}

/// What an arbiter becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Active. It knows nothing.
    Active,
    /// On standby. What it knew is void.
    Standby,
}

impl Watch {
    /// One that starts `now`. `cookie` is a number that nobody can guess.
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

    /// Whether a datagram is meant to be a beat.
    pub fn is_beat(bytes: &[u8]) -> bool {
        bytes.starts_with(&HEAD[..3])
    }

    /// Heeds a beat that came from the other one's address; false if it is none, or not of the
    /// other one.
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
        // It has started anew, and waits to be known.
        if self.other != Some(cookie) {
            self.other = Some(cookie);
            self.answer = Some(cookie);
        }
        match (self.is_second, self.is_active) {
            // The first one stays, and the second will hear of it.
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

    /// The second one, on standby, hears of the first.
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

    /// What has become of it since the last time: to be asked after all that has come was received,
    /// and before anything is said.
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
            // It says so at once.
            self.beat_at = now;
        }
        let is_new = self.is_active && !self.was_active;
        self.was_active = self.is_active;
        is_new.then_some(Change::Active)
    }

    /// The next beat that is to be sent; to be called until there is none.
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

    /// When [`tick`](Self::tick) and [`poll`](Self::poll) are to be called, whatever comes until
    /// then.
    pub fn next_event(&self) -> u64 {
        match self.is_active {
            true => self.beat_at,
            false => self.beat_at.min(self.heard_at + self.window),
        }
    }
}
