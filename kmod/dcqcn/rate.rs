// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rate of a DCQCN sender (§3.3, Figure 7), and the NP's limit of notifications (§3.2).

/// α is counted in 2^-20.
pub const ALPHA_ONE: u32 = 1 << 20;

/// g is 1/256.
const G_SHIFT: u32 = 8;

/// F: the number of fast recoveries.
pub const F: u8 = 5;

/// Below this α nothing is left to take a part g of.
const LEAST_ALPHA: u32 = (1 << G_SHIFT) - 1;

/// From 1, α needs fewer expiries than this to reach [`LEAST_ALPHA`]: 2^-12 of it, a 256th each
/// time.
const ALPHA_STEPS: u64 = 2_400;

/// A row of increases of one kind takes fewer steps than this, see [`Rate::raise`].
const RAISE_STEPS: u32 = 160;

/// The highest rate in bit/s.
pub const HIGHEST: u64 = 1 << 43;

/// The parameters of a flow. Values out of range are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The line rate in bit/s, up to [`HIGHEST`].
    pub line: u64,
    /// The smallest rate in bit/s, at least 8.
    pub least: u64,
    /// R_AI in bit/s.
    pub ai: u64,
    /// R_HAI in bit/s.
    pub hai: u64,
    /// N: the time between two notifications, in ns.
    pub cnp_ns: u64,
    /// K: the time without a notification after which α shrinks, in ns, at least 1.
    pub alpha_ns: u64,
    /// The period of the rate timer, in ns, at least 1.
    pub timer_ns: u64,
    /// B: the bytes of a round of the byte counter, at least 1.
    pub bytes: u64,
}

impl Params {
    /// "K = 55 µs", "N = 50 µs", a timer of 55 µs and a byte counter of 10 MB (§3.3, §5), on the
    /// 40 Gbit/s of the paper. R_AI is 40 Mbit/s, R_HAI ten times that.
    pub const PAPER: Self = Self {
        line: 40_000_000_000,
        least: 10_000_000,
        ai: 40_000_000,
        hai: 400_000_000,
        cnp_ns: 50_000,
        alpha_ns: 55_000,
        timer_ns: 55_000,
        bytes: 10_000_000,
    };
}

/// The kind of the next increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// R_T stays.
    FastRecovery,
    /// R_T += R_AI.
    AdditiveIncrease,
    /// R_T += R_HAI.
    HyperIncrease,
}

/// What is counted towards the next increase.
#[derive(Clone, Copy)]
enum Counted {
    Timer,
    Bytes,
}

/// The state of one flow. The parameters are an argument, because the socket has no room for them
/// beside the state: a flow gets the same ones each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// R_C and R_T in bit/s; R_C is at most R_T, R_T at most the line rate.
    current: u64,
    target: u64,
    /// When the last notification counted, in ns.
    notified: u64,
    /// When α last shrank, or grew; when the rate timer last expired, or started.
    alpha_since: u64,
    timer_since: u64,
    /// Bytes since the byte counter started over, below B.
    bytes: u64,
    /// In 2^-20, at most [`ALPHA_ONE`].
    alpha: u32,
    /// Notifications that counted; saturates.
    notifications: u32,
    /// T and BC, saturating.
    timer_rounds: u8,
    byte_rounds: u8,
}

impl Rate {
    /// A flow that starts at `now`: "it sends at full line rate".
    pub fn new(params: &Params, now: u64) -> Self {
        let line = params.line.clamp(8, HIGHEST);
        Self {
            current: line,
            target: line,
            notified: 0,
            alpha_since: now,
            timer_since: now,
            bytes: 0,
            alpha: ALPHA_ONE,
            notifications: 0,
            timer_rounds: 0,
            byte_rounds: 0,
        }
    }

    /// The next data is a new flow, which starts at `now`. Notifications go on being counted.
    pub fn restart(&mut self, params: &Params, now: u64) {
        *self = Self {
            notifications: self.notifications,
            ..Self::new(params, now)
        };
    }

    /// R_C in bit/s.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// R_T in bit/s.
    pub fn target(&self) -> u64 {
        self.target
    }

    /// α in 2^-20.
    pub fn alpha(&self) -> u32 {
        self.alpha
    }

    /// Notifications that counted since the start, saturating.
    pub fn notifications(&self) -> u32 {
        self.notifications
    }

    /// The kind of the next increase (Figure 7).
    pub fn phase(&self) -> Phase {
        let (timer, bytes) = (self.timer_rounds, self.byte_rounds);
        if timer.max(bytes) < F {
            Phase::FastRecovery
        } else if timer.min(bytes) > F {
            Phase::HyperIncrease
        } else {
            Phase::AdditiveIncrease
        }
    }

    /// Makes up for the expiries of both timers up to and including `now`.
    pub fn advance(&mut self, params: &Params, now: u64) {
        let expiries = elapse(&mut self.alpha_since, params.alpha_ns, now);
        // More than enough of them leave what is left.
        for _ in 0..expiries.min(ALPHA_STEPS) {
            if self.alpha <= LEAST_ALPHA {
                break;
            }
            self.alpha = self.alpha.wrapping_sub(self.alpha >> G_SHIFT);
        }
        let expiries = elapse(&mut self.timer_since, params.timer_ns, now);
        self.count(params, Counted::Timer, expiries);
    }

    /// An acknowledgement of `bytes` arrived at `now`. `marked`: whether it reports a mark.
    pub fn on_ack(&mut self, params: &Params, bytes: u64, marked: bool, now: u64) {
        self.advance(params, now);
        let round = params.bytes.max(1);
        let bytes = self.bytes.saturating_add(bytes);
        let rounds = bytes.checked_div(round).unwrap_or(0);
        self.bytes = bytes.checked_rem(round).unwrap_or(0);
        self.count(params, Counted::Bytes, rounds);
        let quiet = now.saturating_sub(self.notified) >= params.cnp_ns;
        if marked && (quiet || self.notifications == 0) {
            self.notify(params, now);
        }
    }

    /// A CNP arrives (equation 1).
    fn notify(&mut self, params: &Params, now: u64) {
        self.notified = now;
        self.notifications = self.notifications.saturating_add(1);
        self.target = self.current;
        // At most 2^43 times 2^20.
        let part = self.current.wrapping_mul(self.alpha.into()) >> 21;
        let least = params.least.max(8).min(self.target);
        self.current = self.current.saturating_sub(part).max(least);
        let kept = self.alpha.wrapping_sub(self.alpha >> G_SHIFT);
        self.alpha = kept.saturating_add(ALPHA_ONE >> G_SHIFT).min(ALPHA_ONE);
        (self.timer_rounds, self.byte_rounds, self.bytes) = (0, 0, 0);
        (self.alpha_since, self.timer_since) = (now, now);
    }

    /// Counts `rounds` of the timer or of the byte counter, each with its increase.
    fn count(&mut self, params: &Params, counted: Counted, mut rounds: u64) {
        // The phase changes at most twice while one of the two counts.
        for _ in 0..3 {
            if rounds == 0 {
                return;
            }
            let phase = self.phase();
            let (own, other) = match counted {
                Counted::Timer => (self.timer_rounds, self.byte_rounds),
                Counted::Bytes => (self.byte_rounds, self.timer_rounds),
            };
            // How many rounds of this phase there are.
            let left = match phase {
                Phase::FastRecovery => F.saturating_sub(own).into(),
                Phase::AdditiveIncrease if other > F => {
                    F.saturating_add(1).saturating_sub(own).into()
                }
                Phase::AdditiveIncrease | Phase::HyperIncrease => u64::MAX,
            };
            let now = rounds.min(left);
            self.raise(params, phase, now);
            let own = u64::from(own).saturating_add(now).min(u8::MAX.into()) as u8;
            match counted {
                Counted::Timer => self.timer_rounds = own,
                Counted::Bytes => self.byte_rounds = own,
            }
            rounds = rounds.saturating_sub(now);
        }
    }

    /// Increases of one kind, `times` of them.
    ///
    /// With d = R_T - R_C and a step a, an increase makes d the half of d + a, rounded down. After
    /// at most 44 increases d is a or a - 1 and stays, and all further ones up to the line rate are
    /// one addition. There the step is 0, and after at most 44 more nothing changes.
    fn raise(&mut self, params: &Params, phase: Phase, mut times: u64) {
        let line = params.line.clamp(8, HIGHEST);
        let step = match phase {
            Phase::FastRecovery => 0,
            Phase::AdditiveIncrease => params.ai.min(HIGHEST),
            Phase::HyperIncrease => params.hai.min(HIGHEST),
        };
        for _ in 0..RAISE_STEPS {
            if times == 0 {
                return;
            }
            let target = self.target.saturating_add(step).min(line);
            // Rounded up, below 2^45. Above the target only if the line rate was lowered.
            let current = target.saturating_add(self.current).saturating_add(1) >> 1;
            let current = current.min(target);
            if (target, current) == (self.target, self.current) {
                return;
            }
            let is_steady = target.wrapping_sub(current) == self.target.wrapping_sub(self.current)
                && target.wrapping_sub(self.target) == step;
            (self.target, self.current) = (target, current);
            times = times.saturating_sub(1);
            if is_steady {
                let room = line.saturating_sub(target);
                let more = room.checked_div(step).unwrap_or(0).min(times);
                // At most the room.
                let gain = more.wrapping_mul(step);
                self.target = self.target.wrapping_add(gain);
                self.current = self.current.wrapping_add(gain);
                times = times.saturating_sub(more);
            }
        }
    }
}

/// The expiries of a timer that last expired at `since` and has this period, up to and including
/// `now`. Moves `since` to the last one.
fn elapse(since: &mut u64, period: u64, now: u64) -> u64 {
    let period = period.max(1);
    let passed = now.saturating_sub(*since);
    let expiries = passed.checked_div(period).unwrap_or(0);
    *since = since.saturating_add(expiries.saturating_mul(period));
    expiries
}
