// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Control packets find a working path, and keep it.

use weft_mechanisms::fastpass::control_paths::ControlPaths;
use weft_mechanisms::heap::Heap;

use super::exchange::Random;

const PATHS: u16 = 4;
const PATIENCE: u64 = 1000;

#[test]
fn packets_take_the_path_by_which_the_latest_answer_came() {
    let mut paths = ControlPaths::<Heap>::new(3).unwrap();
    for path in [2, 0, 3] {
        paths.heard(1, path);
        assert_eq!(paths.choose(5000, 1, PATHS, PATIENCE, 1), Some(path));
    }
    // However long ago that was, if nothing was sent since except packets that are not answered.
    assert_eq!(paths.choose(90_000, 1, PATHS, PATIENCE, 1), Some(3));
    // No path to another one is known.
    assert_eq!(paths.choose(5000, 2, PATHS, PATIENCE, 6), Some(2));
}

#[test]
fn packets_without_an_answer_try_other_paths() {
    let mut paths = ControlPaths::<Heap>::new(3).unwrap();
    paths.heard(1, 2);
    let mut choose = |now, random| paths.choose(now, 1, PATHS, PATIENCE, random);
    // A burst is no reason to change.
    for now in 0..=500 {
        assert_eq!(choose(now, 0), Some(2), "{now}");
    }
    assert_eq!(choose(501, 0), Some(0));
    assert_eq!(choose(1501, 3), Some(3));
    paths.heard(1, 1);
    assert_eq!(paths.choose(1502, 1, PATHS, PATIENCE, 3), Some(1));
}

#[test]
fn unknown_endpoints_and_networks_without_paths_get_no_path() {
    let mut paths = ControlPaths::<Heap>::new(3).unwrap();
    paths.heard(3, 1);
    assert_eq!(paths.choose(0, 3, PATHS, PATIENCE, 3), None);
    assert_eq!(paths.choose(0, 1, 0, PATIENCE, 3), None);
    assert_eq!(paths.choose(0, 1, 256, PATIENCE, u32::MAX), Some(255));
}

/// An endpoint that requests, and requests again a timeout later, and the arbiter's host, which
/// answers; some of the paths are dead.
#[test]
fn an_endpoint_is_not_cut_off_while_one_path_is_left() {
    let mut random = Random::new(3);
    for dead in 0..(1 << PATHS) - 1 {
        let [mut host, mut arbiter] = [(); 2].map(|()| ControlPaths::<Heap>::new(2).unwrap());
        let is_good = |path: u8| dead >> path & 1 == 0;
        let mut now = 0;
        let mut silent = 0;
        let mut answers = 0;
        while answers < 50 {
            now += PATIENCE;
            let draw = random.draw() as u32;
            let path = host.choose(now, 0, PATHS, PATIENCE, draw).unwrap();
            if is_good(path) {
                arbiter.heard(1, path);
                let back = arbiter.choose(now, 1, PATHS, PATIENCE, draw).unwrap();
                assert_eq!(back, path);
                host.heard(0, back);
                answers += 1;
                // Once it has found a path it keeps it.
                assert!(answers == 1 || silent == 0, "{dead:b}");
                silent = 0;
            } else {
                silent += 1;
                assert!(silent < 100, "{dead:b}: it is cut off");
            }
        }
    }
}
