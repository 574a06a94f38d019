// SPDX-License-Identifier: MIT OR Apache-2.0

//! The names that a mistyped one is near.

/// As many as anybody reads.
const MOST: usize = 3;
/// By how many letters more than the nearest one another may differ.
const MORE: usize = 2;

/// Those of `names` that `word` may stand for, the nearest first and at most three that are about
/// as near: which begin with it, or have it within, or of which at most half is to be rewritten
/// (Levenshtein distance).
pub fn near<'a>(word: &str, names: &[&'a str]) -> Vec<&'a str> {
    let mut near: Vec<(u8, usize, &str)> = names
        .iter()
        .filter_map(|&name| {
            let distance = strsim::levenshtein(word, name);
            match word.len() > 1 {
                true if name.starts_with(word) => Some((0, distance, name)),
                true if distance * 2 <= name.len() => Some((1, distance, name)),
                true if name.contains(word) => Some((2, distance, name)),
                _ => None,
            }
        })
        .collect();
    // Names that are as near as each other stay in their order.
    near.sort_by_key(|&(rank, distance, _)| (rank, distance));
    let farthest = near.first().map_or(0, |(_, distance, _)| distance + MORE);
    let near = near.into_iter();
    let near = near.filter(|&(_, distance, _)| distance <= farthest);
    near.take(MOST).map(|(.., name)| name).collect()
}

/// What to put behind "there is no `word`": `; nearest is NAME`, `; near are NAME, NAME`, or
/// nothing.
pub fn meant(word: &str, names: &[&str]) -> String {
    match near(word, names).as_slice() {
        [] => String::new(),
        [name] => format!("; nearest is {name}"),
        names => format!("; near are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_any_length_is_near() {
        assert_eq!(near("bfc", &["rack", "bfc-testbed"]), ["bfc-testbed"]);
        assert!(near("b", &["rack", "bfc-testbed"]).is_empty());
    }

    #[test]
    fn an_unrelated_word_has_no_near_words() {
        assert!(near("xyzzy", &["rack", "fat-tree"]).is_empty());
        assert_eq!(near("fattree", &["rack", "fat-tree"]), ["fat-tree"]);
    }

    #[test]
    fn the_nearest_come_first_and_no_more_than_three() {
        let names = [
            "pfabric",
            "pfabric-ecmp",
            "pfabric-size",
            "pfabric-tcp",
            "bfc",
        ];
        assert_eq!(near("pfabrik", &names)[0], "pfabric");
        assert_eq!(near("pfabrictcp", &names)[0], "pfabric-tcp");
        assert_eq!(near("pfab", &names), ["pfabric"]);
        assert_eq!(
            near("x-fig", &["x-fig4", "x-fig5", "x-fig6", "x-fig7"]),
            ["x-fig4", "x-fig5", "x-fig6"]
        );
        assert_eq!(
            near("fig4a", &["pfabric-fig4a", "bfc-fig7"]),
            ["pfabric-fig4a"]
        );
    }

    #[test]
    fn the_suggestion_ends_the_sentence() {
        assert_eq!(meant("rak", &["rack", "fat-tree"]), "; nearest is rack");
        assert_eq!(
            meant("fig7", &["bfc-fig7", "x-fig7"]),
            "; near are x-fig7, bfc-fig7"
        );
        assert_eq!(meant("nonsense", &["rack"]), "");
    }
}
