// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Properties that hold for arbitrary bytes. The fuzzer (`fuzz/fuzz_targets/decode.rs`) searches
//! for counterexamples; `corpus.rs` replays those it has kept.

use super::message::written;
use weft_mechanisms::bfc;
use weft_mechanisms::common::flow;
use weft_mechanisms::common::nla::{Attributes, HEADER};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::dibs::options as dibs;
use weft_mechanisms::expresspass::options as expresspass;
use weft_mechanisms::hold::options as hold;
use weft_mechanisms::int::options as int;
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::port::options as port;
use weft_mechanisms::resend::options as resend;
use weft_mechanisms::wire::options as wire;

/// Runs every decoder over `bytes`.
///
/// # Panics
///
/// If a decoder panics, accepts invalid input, or does not read back its own output.
pub(crate) fn decode(bytes: &[u8]) {
    attributes(bytes);
    bfc_frame(bytes);
    bfc_options(bytes);
    dibs_header(bytes);
    dibs_options(bytes);
    expresspass_message(bytes);
    expresspass_options(bytes);
    expresspass_packet(bytes);
    fastpass_frame(bytes);
    flow(bytes);
    hold_options(bytes);
    int_options(bytes);
    pase_message(bytes);
    pfabric_options(bytes);
    port_frame(bytes);
    port_options(bytes);
    records(bytes);
    resend_notice(bytes);
    resend_options(bytes);
    wire_options(bytes);
    stamps(bytes);
    statistics(bytes);
}

fn attributes(bytes: &[u8]) {
    let mut consumed = 0;
    let mut refused = false;
    for attribute in Attributes::new(bytes) {
        assert!(!refused, "an attribute follows a refusal");
        match attribute {
            Ok((attr, payload)) => {
                assert!(attr < 1 << 14, "the flag bits are masked off");
                // The payload is at its place in the format: right after its header.
                assert_eq!(payload.as_ptr(), bytes[consumed + HEADER..].as_ptr());
                consumed = (consumed + HEADER + payload.len()).next_multiple_of(4);
            }
            Err(_) => refused = true,
        }
    }
    assert!(refused || consumed >= bytes.len(), "bytes left unread");
}

fn bfc_frame(bytes: &[u8]) {
    use bfc::frame::{Frame, Message, MAX_HOLD, MAX_QUEUE, MAX_SIZE};
    if let Ok(frame) = Frame::decode(bytes) {
        assert!((1..=MAX_HOLD).contains(&frame.hold));
        match frame.message {
            Message::Pause(queue) | Message::Resume(queue) => {
                assert!((1..=MAX_QUEUE).contains(&queue));
            }
            Message::Bitmap(words) => assert_eq!(words[0] & 1, 0, "nobody pauses queue 0"),
        }
        let mut again = [0xaa; MAX_SIZE];
        let size = frame.encode(&mut again);
        assert!(size <= bytes.len(), "what is written is no longer");
        assert_eq!(Frame::decode(&again[..size]), Ok(frame));
    }
}

fn bfc_options(bytes: &[u8]) {
    use bfc::options::{Config, Options};
    if let Ok(options) = Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(Options::parse(&again), Ok(options));

        if let Ok(config) = Config::new(&options) {
            let data_queues = config.queues - 1;
            assert!((1..1024).contains(&data_queues) && (1..=1000).contains(&config.factor));
            assert!((1..=8).contains(&config.classes));
            assert!(data_queues >= u32::from(config.classes));
            assert!((1..=100).contains(&config.sample));
            assert!((10_000..=10_000_000_000).contains(&config.refresh));
            assert!(config.th != 0 || config.rate != 0 && config.hrtt != 0);
            assert_eq!(config.updated(&options), Ok(config));
        }
    }
    if let Ok(config) = Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(Config::parse(&again), Ok(config));
    }
}

fn dibs_header(bytes: &[u8]) {
    use weft_mechanisms::dibs::ip::{cap_ttl, set_ce, Ecn, Header};
    for protocol in [0x0800, 0x86dd] {
        let header = Header::read(protocol, bytes);
        assert!(header.len as usize <= bytes.len());
        let mut written = bytes.to_vec();
        set_ce(&mut written);
        cap_ttl(&mut written, 9);
        if header.len != 0 && header.ecn != Ecn::NotCapable {
            let again = Header::read(protocol, &written);
            assert_eq!(again.ecn, Ecn::Marked);
        }
    }
}

fn dibs_options(bytes: &[u8]) {
    if let Ok(options) = dibs::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(dibs::Options::parse(&again), Ok(options));

        let config = dibs::Config::new(&options).expect("a parsed request is in range");
        assert!(config.ttl <= dibs::MAX_TTL && config.from <= dibs::MAX_FROM);
        assert!(config.alpha <= dibs::MAX_ALPHA);
        assert_eq!(config.updated(&options), Ok(config));
    }
    if let Ok(config) = dibs::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(dibs::Config::parse(&again), Ok(config));
    }
}

fn expresspass_message(bytes: &[u8]) {
    use weft_mechanisms::expresspass::message::Message;
    if let Some(message) = Message::decode(bytes) {
        assert_eq!(message.encode()[..], *bytes);
    }
}

fn expresspass_options(bytes: &[u8]) {
    if let Ok(options) = expresspass::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(expresspass::Options::parse(&again), Ok(options));

        if let Ok(config) = expresspass::Config::new(&options) {
            let law = config.law();
            assert!(law.gap > 0 && law.alpha > 0 && law.w_init > 0);
            assert_eq!(config.updated(&options), Ok(config));
        }
    }
    if let Ok(config) = expresspass::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(expresspass::Config::parse(&again), Ok(config));
    }
}

fn expresspass_packet(bytes: &[u8]) {
    use weft_mechanisms::expresspass::segment::{number, Sort, IPV4};
    if let Sort::Data { flow, number: old } = Sort::of(IPV4, bytes) {
        let mut again = bytes.to_vec();
        number(&mut again, 0x1234);
        let expected = Sort::Data {
            flow,
            number: old.map(|_| 0x1234),
        };
        assert_eq!(Sort::of(IPV4, &again), expected);
        if let Some(old) = old {
            number(&mut again, old);
            // Only the two forms of a checksum of zero differ.
            assert_eq!(again[..10], bytes[..10]);
            assert_eq!(again[12..], bytes[12..]);
        }
    }
}

fn fastpass_frame(bytes: &[u8]) {
    use weft_mechanisms::fastpass::frame::{
        encode, encode_report, encode_reset, Frame, Kind, ENTRIES, MAX_SIZE, MOST, MOST_TIMESLOTS,
    };
    if let Ok(frame) = Frame::decode(bytes) {
        let slots: Vec<_> = frame.slots().collect();
        let counts = frame.counts().count();
        let runs: Vec<_> = frame.runs().collect();
        assert!(counts <= MOST && runs.len() <= MOST && slots.len() <= MOST_TIMESLOTS);
        assert!(slots.iter().all(|slot| usize::from(slot.count) < counts));
        let entries: Vec<_> = frame.entries().collect();
        assert!(entries.len() <= ENTRIES);
        let mut again = [0xaa; MAX_SIZE];
        let head = frame.head;
        let (size, nonce) = match head.kind {
            Kind::Reset => (
                encode_reset(&mut again, head.endpoint, head.word, frame.nonce()),
                head.word,
            ),
            Kind::Report => (
                encode_report(&mut again, head, 1, frame.time(), &entries),
                1,
            ),
            _ => (encode(&mut again, head, 1, frame.counts(), &runs), 1),
        };
        // Everything except the proof and the check is unchanged.
        assert_eq!(again[..20], bytes[..20]);
        assert_eq!(again[32..size], bytes[32..]);
        let again = Frame::decode(&again[..size]).expect("what is written is read back");
        assert!(again.is_under(nonce));
        assert_eq!(again.head, head);
    }
}

fn flow(bytes: &[u8]) {
    let key = flow::Key::new([1, 2]);
    for protocol in [0x0800, 0x86dd] {
        let whole = key.flow(protocol, bytes);
        if let Some(last) = bytes.len().checked_sub(1) {
            // A truncated packet never passes for another flow.
            let part = key.flow(protocol, &bytes[..last]);
            assert!(part.is_none() || part == whole);
        }
    }
}

fn hold_options(bytes: &[u8]) {
    if let Ok(options) = hold::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(hold::Options::parse(&again), Ok(options));
    }
}

fn int_options(bytes: &[u8]) {
    if let Ok(options) = int::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(int::Options::parse(&again), Ok(options));

        if let Ok(config) = int::Config::new(&options) {
            assert!((int::MIN_RATE..=int::MAX_RATE).contains(&config.rate));
            assert!((1..=int::MAX_RTT).contains(&config.rtt));
            assert_eq!(config.updated(&options), Ok(config));
        }
    }
    if let Ok(config) = int::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(int::Config::parse(&again), Ok(config));
    }
}

/// A tag of any bytes is not a stamp, or the same one again.
fn stamps(bytes: &[u8]) {
    use weft_mechanisms::common::stamp::{code_of, utilisation_of, Stamps};
    let Some(rank) = bytes.first_chunk().map(|rank| u32::from_ne_bytes(*rank)) else {
        return;
    };
    match Stamps::from_rank(rank) {
        Some(stamps) => {
            assert_eq!(stamps.to_rank(), rank);
            for code in [stamps.stamp, stamps.echo] {
                assert_eq!(code_of(utilisation_of(code)), code.max(1));
            }
        }
        None => assert!(rank >= 1 << 22),
    }
}

/// A link writes only into the block of a packet with records, and keeps IPv4's checksum as right
/// or wrong as it was.
fn records(bytes: &[u8]) {
    use weft_mechanisms::common::records::{append, find, Departure, Records, BLOCK};
    let Some((at, head)) = find(bytes) else {
        return;
    };
    let departure = Departure {
        queue: 1 << 20,
        sent: 1 << 40,
        time: 1 << 50,
    };
    let mut packet = bytes.to_vec();
    let had_room = append(&mut packet, (at, head), 3, 15_000, departure);
    assert!(had_room || head.hops() == 6);
    let sum = |packet: &[u8]| {
        let words = packet[..60].chunks_exact(2);
        let sum = words.map(|it| u64::from(u16::from_be_bytes([it[0], it[1]])));
        sum.sum::<u64>() % 0xffff
    };
    let end = at + BLOCK;
    if at < 40 {
        assert_eq!(sum(&packet), sum(bytes));
        assert_eq!(
            (&packet[..10], &packet[12..at]),
            (&bytes[..10], &bytes[12..at])
        );
    } else {
        assert_eq!(packet[..at], bytes[..at]);
    }
    assert_eq!(packet[end..], bytes[end..]);
    let block = |packet: &[u8]| Records::from_block(packet[at..].first_chunk().expect("38 bytes"));
    let (before, after) = (block(bytes), block(&packet));
    assert_eq!(after.since(&before, 1_000).count(), 0);
    assert!(after.since(&after, 0).next().is_none());
    assert_eq!(after.head().echo, head.echo);
}

fn pase_message(bytes: &[u8]) {
    use weft_mechanisms::pase::message::{Message, Says, MAX_HOLD};
    use weft_mechanisms::pase::MAX_RATE;
    if let Ok(message) = Message::decode(bytes) {
        let (rate, hold) = match message.says {
            Says::Ask { flow, .. } => (flow.demand, 1),
            Says::Answer { verdict, hold, .. } => {
                assert!(verdict.queue >= 1);
                (verdict.rate, hold)
            }
            Says::End(_) => (0, 1),
            Says::Report { demand, .. } => (demand, 1),
            Says::Share { rate, hold, .. } => (rate, hold),
        };
        assert!(rate <= MAX_RATE && (1..=MAX_HOLD).contains(&hold));
        assert_eq!(message.encode(), bytes);
    }
}

fn pfabric_options(bytes: &[u8]) {
    if let Ok(options) = pfabric::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(pfabric::Options::parse(&again), Ok(options));

        let config = pfabric::Config::new(&options).expect("a parsed request is in range");
        assert!((1..=pfabric::MAX_LIMIT).contains(&config.limit));
        assert_eq!(config.updated(&options), Ok(config));
    }
    if let Ok(config) = pfabric::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(pfabric::Config::parse(&again), Ok(config));
    }
}

fn port_frame(bytes: &[u8]) {
    use weft_mechanisms::port::frame::Frame;
    if let Ok(frame) = Frame::decode(bytes) {
        assert!(bytes.len() >= 20);
        assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
    }
}

fn port_options(bytes: &[u8]) {
    if let Ok(options) = port::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(port::Options::parse(&again), Ok(options));

        if let Ok(config) = port::Config::new(&options) {
            assert!(config.alpha <= port::MAX_ALPHA && (1..=100).contains(&config.xoff));
            assert!(config.priority <= port::MAX_PRIORITY);
            if config.pfc {
                assert!((port::MIN_RATE..=port::MAX_RATE).contains(&config.rate));
                let time = port::pause_time(config.quanta, config.rate);
                assert!(time >= port::MIN_PAUSE);
                assert!(config.memory == 0 || config.headroom_bytes(0) < config.memory.into());
            }
            assert_eq!(config.updated(&options), Ok(config));
        }
    }
    if let Ok(config) = port::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(port::Config::parse(&again), Ok(config));
    }
}

fn resend_notice(bytes: &[u8]) {
    use weft_mechanisms::resend::notice::{decode, encode, is_notice, SIZE};
    use weft_mechanisms::resend::segment::{Segment, IPV4};
    if let Some(segment) = Segment::read(IPV4, bytes) {
        assert!(segment.length < 1 << 17 && decode(IPV4, bytes).is_none());
    }
    assert_eq!(is_notice(IPV4, bytes), decode(IPV4, bytes).is_some());
    if let Some(Ok(segment)) = decode(IPV4, bytes) {
        let at = usize::from(bytes[0] & 15) * 4;
        let mut again = bytes.to_vec();
        again[at..at + SIZE].copy_from_slice(&encode(&segment));
        assert_eq!(decode(IPV4, &again), Some(Ok(segment)));
        // Only the two forms of a checksum of zero differ.
        assert_eq!(again[at + 4..], bytes[at + 4..]);
    }
}

fn resend_options(bytes: &[u8]) {
    if let Ok(options) = resend::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(resend::Options::parse(&again), Ok(options));

        let config = resend::Config::new(&options).expect("a parsed request is in range");
        assert!(config.keep <= resend::MAX_KEEP);
        assert_eq!(config.updated(&options), Ok(config));
    }
    if let Ok(config) = resend::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(resend::Config::parse(&again), Ok(config));
    }
}

fn wire_options(bytes: &[u8]) {
    if let Ok(options) = wire::Options::parse(bytes) {
        let again = written(|message| options.put(message));
        assert_eq!(wire::Options::parse(&again), Ok(options));

        match wire::Config::new(&options) {
            Ok(config) => {
                assert!((wire::MIN_RATE..=wire::MAX_RATE).contains(&config.rate));
                assert!(config.delay <= wire::MAX_DELAY);
                assert!(config.overhead <= wire::MAX_OVERHEAD);
                assert!(config.mpu <= wire::MAX_MPU);
                assert!(config.slack <= wire::MAX_SLACK);
                assert!(config.limit <= wire::MAX_LIMIT);
                assert!((1..=wire::MAX_LIMIT).contains(&config.bytes_in_flight()));
                assert_eq!(config.updated(&options), Ok(config));
            }
            Err(_) => assert!(
                options.rate.is_none() || options.limit.unwrap_or(0) == 0,
                "only the rate is required, and for much in flight a limit"
            ),
        }
    }
    if let Ok(config) = wire::Config::parse(bytes) {
        let again = written(|message| config.put(message));
        assert_eq!(wire::Config::parse(&again), Ok(config));
    }
}

fn statistics(bytes: &[u8]) {
    use bfc::stats::{QueueStats, Stats};
    let kind = bytes.first_chunk().map(|kind| u32::from_ne_bytes(*kind));
    match Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(stats.to_bytes(), bytes[..Stats::SIZE]),
        None => assert!(bytes.len() < Stats::SIZE || kind != Some(Stats::KIND)),
    }
    match QueueStats::from_bytes(bytes) {
        Some(stats) => assert_eq!(stats.to_bytes(), bytes[..QueueStats::SIZE]),
        None => assert!(bytes.len() < QueueStats::SIZE || kind != Some(QueueStats::KIND)),
    }
    match weft_mechanisms::pfabric::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::pfabric::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::pfabric::stats::Stats::SIZE),
    }
    match weft_mechanisms::dibs::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::dibs::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::dibs::stats::Stats::SIZE),
    }
    match weft_mechanisms::int::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::int::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::int::stats::Stats::SIZE),
    }
    match weft_mechanisms::port::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::port::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::port::stats::Stats::SIZE),
    }
    match weft_mechanisms::resend::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::resend::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::resend::stats::Stats::SIZE),
    }
    match weft_mechanisms::expresspass::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::expresspass::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::expresspass::stats::Stats::SIZE),
    }
    match weft_mechanisms::wire::stats::Stats::from_bytes(bytes) {
        Some(stats) => assert_eq!(
            stats.to_bytes(),
            bytes[..weft_mechanisms::wire::stats::Stats::SIZE]
        ),
        None => assert!(bytes.len() < weft_mechanisms::wire::stats::Stats::SIZE),
    }
}
