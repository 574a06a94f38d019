// SPDX-License-Identifier: MIT OR Apache-2.0

//! What kmemleak finds in a kernel that has it (Documentation/dev-tools/kmemleak.rst).

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

const FILE: &str = "/sys/kernel/debug/kmemleak";

/// Memory that is younger is not judged yet (`MSECS_MIN_AGE` in mm/kmemleak.c, 5 s).
const AGE: Duration = Duration::from_millis(5500);

/// How often it looks: the first time for what an object has in it, as only one that has not
/// changed since is lost.
const LOOKS: u32 = 2;

/// Looks through all memory, each time once what there is is old enough to be judged, and returns
/// the objects to which nothing refers: each one's line, and its process, content and trace behind
/// it.
///
/// # Errors
///
/// If there is no kmemleak, or it has turned itself off.
pub fn lost() -> Result<Vec<String>> {
    for _ in 0..LOOKS {
        std::thread::sleep(AGE);
        fs::write(FILE, "scan").context("kmemleak does not scan")?;
    }
    let listed = fs::read_to_string(FILE).context(FILE)?;
    Ok(objects(&listed).map(str::to_owned).collect())
}

fn objects(listed: &str) -> impl Iterator<Item = &str> {
    const HEAD: &str = "unreferenced object";
    let starts: Vec<usize> = listed.match_indices(HEAD).map(|(at, _)| at).collect();
    let ends: Vec<usize> = starts
        .iter()
        .copied()
        .skip(1)
        .chain([listed.len()])
        .collect();
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| &listed[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_kmemleak_is_split_into_leaks() {
        let listed = "unreferenced object 0x1 (size 8):\n  comm \"tc\"\n    a+0x1\n\
                      unreferenced object 0x2 (size 9):\n  comm \"tc\"\n    b+0x1\n";
        let all: Vec<&str> = objects(listed).collect();
        assert_eq!(all.len(), 2);
        assert!(all[0].contains("a+0x1") && !all[0].contains("b+0x1"));
        assert!(all[1].ends_with("b+0x1\n"));
        assert_eq!(objects("").count(), 0);
    }
}
