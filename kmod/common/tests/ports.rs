// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The ports of a switch against an ordered map.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_mechanisms::common::ports::{Ports as PortsOf, MAX_PORTS};
use weft_mechanisms::heap::Heap;

/// Each with a name, to identify its state.
type Ports = PortsOf<Heap, u32>;

fn places(places: u16) -> Ports {
    let Ok(ports) = Ports::new(places, || 0);
    ports
}

/// Makes room, as the kernel does, and joins.
fn join(ports: &mut Ports, device: u32) -> Option<u16> {
    if let Some(wanted) = ports.wanted_places() {
        drop(ports.grow(places(wanted)));
    }
    ports.join(device)
}

#[test]
fn a_port_exists_from_its_first_member_until_it_is_removed() {
    let mut ports = places(2);
    assert!(ports.is_empty());
    let number = ports.join(7).unwrap();
    assert_eq!(ports.join(7), Some(number));
    ports.get_mut(number).unwrap().state = 70;
    assert!(!ports.leave(number), "another member is left");
    ports.remove(number);
    assert_eq!(ports.find(7), Some(number), "it has a member");
    assert!(ports.leave(number));
    assert!(!ports.leave(number), "nobody is left to leave");
    assert_eq!((ports.find(7), ports.find_member(7)), (Some(number), None));
    // Its number and its state still exist for a member that returns.
    assert_eq!(ports.join(7), Some(number));
    assert_eq!(ports.find_member(7), Some(number));
    assert_eq!(ports.get(number).unwrap().state, 70);
    assert!(ports.leave(number));
    ports.remove(number);
    assert_eq!((ports.find(7), ports.len()), (None, 0));
    assert!(ports.get(number).unwrap().is_vacant());
}

#[test]
fn there_is_room_for_1024_ports_and_no_more() {
    let mut ports = places(0);
    assert_eq!(ports.join(1), None, "no place yet");
    for device in 1..=u32::from(MAX_PORTS) {
        assert!(join(&mut ports, device).is_some());
    }
    assert_eq!(ports.len(), 1024);
    assert_eq!(ports.wanted_places(), Some(MAX_PORTS));
    assert_eq!(join(&mut ports, 5000), None);
    assert_eq!(places(u16::MAX).places(), MAX_PORTS);
    let number = ports.find(77).unwrap();
    assert_eq!(join(&mut ports, 77), Some(number), "no new port");
}

#[test]
fn no_device_has_index_0() {
    let mut ports = places(2);
    assert_eq!((ports.join(0), ports.find(0)), (None, None));
    assert!(ports.get(0).unwrap().is_vacant());
    assert_eq!(ports.get(0).unwrap().members(), 0);
}

#[test]
fn a_number_without_a_port_has_no_effect() {
    let mut ports = places(2);
    for number in [1, 2, u16::MAX] {
        assert!(!ports.leave(number));
        ports.remove(number);
    }
    assert!(ports.get(2).is_none());
    assert!(ports.is_empty());
}

#[test]
fn a_port_has_65535_members_and_no_more() {
    let mut ports = places(1);
    for _ in 0..u16::MAX {
        assert_eq!(ports.join(3), Some(0));
    }
    assert_eq!(ports.join(3), None);
    assert_eq!(ports.get(0).unwrap().members(), u16::MAX);
}

/// Devices close together, far apart, and such whose search begins at the same slot of the table,
/// even its last: multiples of the inverse of 2^k/φ do.
fn device() -> impl Strategy<Value = u32> {
    const INVERSE: u32 = 0x144C_BC89; // of the factor 0x9E37_79B9, modulo 2^32
    prop_oneof![
        1..40_u32,
        (1..40_u32).prop_map(|i| i << 20),
        (1..40_u32).prop_map(|i| INVERSE.wrapping_mul(i)),
        (1..40_u32).prop_map(|i| INVERSE.wrapping_mul(i.wrapping_neg())),
        (0..40_u32).prop_map(|i| u32::MAX - i),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Join(u32),
    Leave(u32),
    Remove(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => device().prop_map(Step::Join),
        2 => device().prop_map(Step::Leave),
        2 => device().prop_map(Step::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_matches_an_ordered_map(steps in proptest::collection::vec(step(), 1..600)) {
        let mut ports = places(0);
        // By device: its number, its members.
        let mut model = BTreeMap::<u32, (u16, u16)>::new();
        for step in steps {
            match step {
                Step::Join(device) => {
                    let number = join(&mut ports, device).unwrap();
                    let taken = model.iter().any(|(other, port)| *other != device && port.0 == number);
                    prop_assert!(!taken, "{} is taken", number);
                    let port = model.entry(device).or_insert((number, 0));
                    prop_assert_eq!(port.0, number);
                    port.1 += 1;
                    ports.get_mut(number).unwrap().state = device;
                }
                Step::Leave(device) => {
                    let Some(port) = model.get_mut(&device) else { continue };
                    prop_assert_eq!(ports.leave(port.0), port.1 == 1);
                    port.1 = port.1.saturating_sub(1);
                }
                Step::Remove(device) => {
                    let Some(port) = model.get(&device) else { continue };
                    ports.remove(port.0);
                    if port.1 == 0 {
                        model.remove(&device);
                        prop_assert_eq!(ports.find(device), None);
                    }
                }
            }
            prop_assert_eq!(usize::from(ports.len()), model.len());
            for (&device, &(number, members)) in &model {
                prop_assert_eq!(ports.find(device), Some(number));
                prop_assert_eq!(ports.find_member(device), (members != 0).then_some(number));
                let port = ports.get(number).unwrap();
                prop_assert_eq!((port.device(), port.members(), port.state), (device, members, device));
            }
        }
    }
}
