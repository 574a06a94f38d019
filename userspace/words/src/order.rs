// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order of names as people count them.

/// What a name is sorted by so that `h2` comes before `h10`.
pub fn natural(name: &str) -> (&str, Option<u64>, &str) {
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (letters, name[letters.len()..].parse().ok(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_and_not_spelt() {
        let mut names = ["h10", "edge2", "h2", "h", "h02", "edge10", "7"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["7", "edge2", "edge10", "h", "h02", "h2", "h10"]);
    }
}
