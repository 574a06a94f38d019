// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hashes of the source that decides a run's results, for the build script.
//! A hash covers tokens. It excludes comments, white space, tests and trailing commas, and, in
//! programs, strings with a space in them, which are messages. If several kernel modules share
//! code, a module's hash covers the files that it mentions, and the files that these mention: a
//! change to one qdisc's helper does not affect the others. In doubt the rule includes too many
//! files, which costs an unnecessary run; too few would hide a change.

// The build script includes this file under another path.
#[path = "read/c.rs"]
mod c;
#[path = "read/source.rs"]
mod source;
#[path = "read/tokens.rs"]
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use c::used;
use source::{Reader, is_module};
use tokens::text_of;

/// Lines of a script, a configuration or a patch, without comments and without a patch's header.
pub(crate) fn lines(text: &str) -> String {
    let is_patch = text.lines().any(|line| line.starts_with("--- "));
    let lines = text
        .lines()
        .skip_while(|line| is_patch && !line.starts_with("--- "));
    let says = |line: &&str| {
        let line = line.trim();
        let is_comment =
            line.starts_with('#') && !line.starts_with("#!") && !line.ends_with("is not set");
        is_patch || !(line.is_empty() || is_comment)
    };
    lines.filter(says).collect::<Vec<_>>().join("\n")
}

/// The Rust files in a folder and below it, except tests and certain names of files and folders.
///
/// # Errors
/// If a folder cannot be read.
pub(crate) fn files(folder: &Path, without: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        let stem = stem(&path);
        if without.contains(&stem.as_str()) || stem == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, without)?);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The parts that decide results, each with the text that its hash covers.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn parts(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut reader = Reader::default();
    let mut parts = BTreeMap::new();
    let mut folders = entries(&root.join("kmod"))?;
    folders.retain(|folder| folder.is_dir() && !folder.ends_with("kapi"));
    for path in folders.iter().map(|folder| entries(folder)) {
        for path in path? {
            let stem = stem(&path);
            if is_module(&stem) && path.extension().is_some_and(|it| it == "rs") {
                parts.insert(stem, module(&mut reader, root, &path)?);
            }
        }
    }
    let mechanisms: Vec<(String, PathBuf)> = folders
        .iter()
        .map(|folder| (stem(folder), folder.join("mod.rs")))
        .filter(|(_, path)| path.exists())
        .collect();
    let mut program = |name: &str, roots: Vec<PathBuf>, candidates: &[(String, PathBuf)]| {
        let found = reader.closure(&roots, candidates)?;
        let texts = found.values().map(|source| text_of(&source.tokens, true));
        parts.insert(name.to_owned(), texts.collect::<String>());
        io::Result::Ok(())
    };
    let mut guest = files(
        &root.join("vm/guest/src"),
        &["session", "transfer", "output"],
    )?;
    guest.push(root.join("vm/machine/src/um.rs"));
    program("guest", guest, &[])?;
    let mut ebpf = files(&root.join("ebpf/programs/src"), &[])?;
    ebpf.extend(files(&root.join("ebpf/common/src"), &[])?);
    ebpf.extend(files(
        &root.join("ebpf/loader/src"),
        &["main", "lib", "counters"],
    )?);
    program("ebpf", ebpf, &mechanisms)?;
    for (name, folder) in [
        ("weft-pase", "userspace/pase/src"),
        ("weft-arbiter", "userspace/arbiter/src"),
    ] {
        program(name, files(&root.join(folder), &[])?, &mechanisms)?;
    }
    // The flows have a separate hash.
    let drawn = [
        "error",
        "lib",
        "sizes",
        "arrivals",
        "pairs",
        "generate",
        "incast",
        "deadlines",
        "collective",
        "trace",
        "hosts",
        "lines",
        "quantity",
        "random",
        "load",
    ];
    program(
        "engine",
        files(&root.join("userspace/load/src"), &drawn)?,
        &[],
    )?;
    // Topologies and schemes have separate hashes, and experiments only use results.
    let planned = [
        "error",
        "lib",
        "experiment",
        "results",
        "session",
        "live",
        "signals",
        "words",
        "number",
        "inputs",
        "parameter",
        "variables",
        "scheme",
        "topology",
        "shape",
        "traffic",
        "gates",
    ];
    program(
        "measuring",
        files(&root.join("userspace/lab/src"), &planned)?,
        &[],
    )?;
    let other = [
        "error", "lib", "commands", "down", "orphans", "probe", "rootless", "machine", "part",
        "layout", "follow",
    ];
    program(
        "weaving",
        files(&root.join("userspace/net/src"), &other)?,
        &[],
    )?;
    let image = fs::read_to_string(root.join("vm/build/src/stages/boot.sh"))?;
    parts.insert("image".to_owned(), lines(&image));
    // Names of gates appear in results, and contain spaces.
    let gates = reader.read(&root.join("userspace/lab/src/gates.rs"))?;
    parts.insert("gates".to_owned(), text_of(&gates.tokens, false));
    let recipe = ["vm/um/build.sh", "vm/um/config"].map(|it| root.join(it));
    for path in recipe
        .into_iter()
        .chain(entries(&root.join("vm/um/patches"))?)
    {
        let text = fs::read_to_string(path)?;
        let part = qdisc_of_patch(&text).unwrap_or("kernel".to_owned());
        *parts.entry(part).or_default() += &lines(&text);
    }
    Ok(parts)
}

/// The stock qdisc, as `sch_NAME`, if a patch of the kernel changes only this qdisc's own file. It
/// cannot change a run without this qdisc.
fn qdisc_of_patch(patch: &str) -> Option<String> {
    // Of a deleted file this is /dev/null.
    let mut files = patch.lines().filter_map(|line| line.strip_prefix("+++ "));
    let name = files.next()?.strip_prefix("b/net/sched/")?;
    let name = name.strip_suffix(".c")?;
    // Every qdisc uses these.
    let of_all = ["sch_api", "sch_generic"].contains(&name);
    let own = name.starts_with("sch_") && !of_all && files.next().is_none();
    own.then(|| name.to_owned())
}

/// The source of a kernel module.
fn module(reader: &mut Reader, root: &Path, path: &Path) -> io::Result<String> {
    let found = reader.closure(&[path.to_owned()], &[])?;
    let words = found
        .values()
        .flat_map(|it| it.mentions.iter().cloned())
        .collect();
    let mut text: String = found
        .values()
        .map(|source| text_of(&source.tokens, false))
        .collect();
    let mut functions = entries(&root.join("kmod/kapi"))?;
    functions.retain(|path| path.extension().is_some_and(|it| it == "c"));
    let functions = functions.iter().map(fs::read_to_string);
    let functions = functions.collect::<io::Result<Vec<_>>>()?;
    let declarations = fs::read_to_string(root.join("kmod/kapi/bindings.h"))?;
    text += &text_of(&used(&functions, &declarations, &words), false);
    Ok(text + &lines(&fs::read_to_string(root.join("kmod/Kbuild"))?))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The entries of a folder, sorted.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut all: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::c::items_of_c;
    use super::source::Source;
    use super::tokens::{plain, tokens};
    use super::*;

    /// The text that the hash of a source covers.
    fn hashed(text: &str) -> String {
        text_of(&plain(tokens(text)), false)
    }

    #[test]
    fn a_patch_of_one_qdiscs_file_belongs_to_that_qdisc() {
        let of = |files: &[&str]| {
            let patch = |file: &&str| format!("--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-a\n+b\n");
            qdisc_of_patch(&files.iter().map(patch).collect::<String>())
        };
        assert_eq!(of(&["net/sched/sch_fq.c"]).as_deref(), Some("sch_fq"));
        for others in [
            &["net/sched/sch_fq.c", "net/core/sock.c"][..],
            &["net/sched/sch_fq.c", "net/sched/sch_fq_codel.c"],
            &["net/sched/sch_api.c"],
            &["net/sched/sch_generic.c"],
            &["net/sched/cls_api.c"],
            &["net/core/dev.c"],
            &[],
        ] {
            assert_eq!(of(others), None, "{others:?}");
        }
        let deleted = "--- a/net/core/x.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        let own = "--- a/net/sched/sch_fq.c\n+++ b/net/sched/sch_fq.c\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(qdisc_of_patch(&format!("{own}{deleted}")), None);
        assert_eq!(qdisc_of_patch(&format!("{deleted}{own}")), None);
    }

    #[test]
    fn comments_layout_and_tests_are_not_hashed() {
        let one = "fn f(a: u8, b: u8) -> char { g(a, b); '\'' }";
        let other = "
            //! A module.
            /// A function. /* not closed
            fn f(
                a: u8, // the first
                b: u8,
            ) -> char {
                /* nested /* twice */ \" */
                g(a, b);
                '\''
            }
            #[cfg(test)]
            #[path = \"x.rs\"]
            mod tests;
            #[cfg(test)]
            mod more { fn f() -> [u8; 1] { [1] } }
        "
        .replace("\\\"", "\"");
        assert_eq!(hashed(one), hashed(&other));
    }

    #[test]
    fn a_change_that_can_change_results_changes_a_hash() {
        let all = [
            "fn f() { g(1) }",
            "fn f() { g(2) }",
            "fn f() { g(\"//1\") }",
            "fn f() { g(\"//2\") }",
            "fn f() { g(r#\"/*\"1*/\"#) }",
            "fn f() { g(r#\"/*\"2*/\"#) }",
            "fn f<'a>() { g('a') }",
            "fn f<'a>() { g('b') }",
            "fn f() { g(b'\\'', c\"x\") }",
            "fn f() { g(b'\\'', c\"y\") }",
            "#[cfg(not(test))] fn f() { g(1) }",
        ];
        for (place, one) in all.iter().enumerate() {
            let others = all.iter().skip(place + 1);
            others.for_each(|other| assert_ne!(hashed(one), hashed(other)));
        }
    }

    #[test]
    fn messages_that_decide_nothing_are_not_hashed() {
        let hashed = |text| text_of(&tokens(text), true);
        assert_eq!(
            hashed("f(\"no such file\")"),
            hashed("f(\"there is none\")")
        );
        assert_ne!(hashed("f(\"tcp_rmem\")"), hashed("f(\"tcp_wmem\")"));
    }

    #[test]
    fn lines_without_effect_are_not_hashed() {
        let one = "# A clock.\nCONFIG_A=y\n# CONFIG_B is not set\n";
        assert_eq!(lines(one), lines("CONFIG_A=y\n\n# CONFIG_B is not set\n"));
        assert_ne!(lines(one), lines("CONFIG_A=y\n"));
        let patch = "why\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+#b\n";
        assert_eq!(lines(patch), lines(&patch.replace("why", "because")));
        assert_ne!(lines(patch), lines(&patch.replace("#b", "#c")));
    }

    #[test]
    fn only_used_files_of_c_and_used_declarations_are_hashed() {
        let one = "#include <a.h>\nenum { A };\nint weft_a(void) { return weft_b(); }\n";
        let other = "#include <b.h>\nenum { B };\nint weft_b(void) { return B; }\n";
        let third = "#include <c.h>\nenum { C };\nint weft_c(void) { return C; }\n";
        let files = [one, other, third].map(str::to_owned);
        let declarations = "enum { D };\nint weft_a(void);\nint weft_b(void);\nint weft_c(void);\n\
                            typedef void (*weft_fn)(int);\n";
        let of = |word: &str| {
            let words = [word.to_owned()].into_iter().collect();
            text_of(&used(&files, declarations, &words), false).replace('\n', " ")
        };
        // weft_a calls weft_b.
        let both = of("weft_a");
        for part in [
            "a . h",
            "enum { B }",
            "int weft_b ( void ) ;",
            "weft_fn",
            "enum { D }",
        ] {
            assert!(both.contains(part), "{part}: {both}");
        }
        for part in ["c . h", "enum { C }", "weft_c"] {
            assert!(!both.contains(part), "{part}: {both}");
        }
        let third = of("weft_c");
        assert!(
            third.contains("enum { C }") && !third.contains("enum { A }"),
            "{third}"
        );
    }

    #[test]
    fn only_mentioned_items_of_c_are_hashed() {
        let text = "#include <a.h>\nstatic int x;\nint a(int n)\n{\n\treturn b(n);\n}\nint b(int n) { return n; }\n\
                    int c(int n) { return n; }\n";
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        let of = |word: &str| text_of(&items_of_c(text, &words(&[word])), false).replace('\n', " ");
        assert!(
            of("a").contains("int a (")
                && of("a").contains("int b (")
                && !of("a").contains("int c (")
        );
        assert!(
            of("c").contains("int c (") && !of("c").contains("int a ("),
            "{}",
            of("c")
        );
        assert!(of("c").contains("static int x ;"));
    }

    /// A folder of files that is removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder =
                std::env::temp_dir().join(format!("weft-sources-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            for (file, text) in files {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(folder)
        }

        fn needed(&self, root: &str) -> Vec<String> {
            let found = Reader::default()
                .closure(&[self.0.join(root)], &[])
                .unwrap();
            let names = found
                .keys()
                .map(|it| it.strip_prefix(&self.0).unwrap().display().to_string());
            names.filter(|name| name != root).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_module_includes_all_files_that_it_mentions_transitively() {
        let folder = Folder::new(
            "closure",
            &[
                (
                    "m/sch_m.rs",
                    "#[path = \"../kapi/mod.rs\"] mod kapi;\n#[path = \"mod.rs\"] mod m;\nuse kapi::{a::Alpha};\nuse m::X;",
                ),
                ("m/mod.rs", "pub mod law;\npub mod unused;"),
                ("m/law.rs", ""),
                ("m/unused.rs", ""),
                (
                    "kapi/mod.rs",
                    "pub mod a;\nmod b;\nmod c;\nmod d;\nmod e;\npub(crate) mod other;\n",
                ),
                (
                    "kapi/a.rs",
                    "pub struct Alpha;\nfn f(c: u8) { super::b::g(c); m!() }",
                ),
                ("kapi/b.rs", "pub struct B;"),
                // Only a variable has its name.
                ("kapi/c.rs", "pub struct C;"),
                // Its method is called without mentioning its name.
                ("kapi/d.rs", "impl super::a::Alpha { pub fn h(&self) {} }"),
                // The same holds for its macro.
                ("kapi/e.rs", "macro_rules! m { () => {} }"),
                // A type that it returns gets no method here.
                (
                    "kapi/other.rs",
                    "struct F; impl F { fn f() -> impl Fn(Alpha) { g } }",
                ),
            ],
        );
        let expected = [
            "kapi/a.rs",
            "kapi/b.rs",
            "kapi/d.rs",
            "kapi/e.rs",
            "kapi/mod.rs",
            "m/mod.rs",
        ];
        let mut needed = folder.needed("m/sch_m.rs");
        assert_eq!(needed, expected);
        fs::write(
            folder.0.join("m/sch_m.rs"),
            "#[path = \"mod.rs\"] mod m;\nuse m::law::L;",
        )
        .unwrap();
        needed = folder.needed("m/sch_m.rs");
        assert_eq!(needed, ["m/law.rs", "m/mod.rs"]);
    }

    #[test]
    fn a_mechanism_with_the_name_of_an_own_module_does_not_count() {
        let folder = Folder::new(
            "own",
            &[
                (
                    "lib.rs",
                    "pub mod port;\nuse crate::port::P;\nuse m::law::L;",
                ),
                ("port.rs", ""),
                ("m/port.rs", ""),
                ("m/law.rs", ""),
            ],
        );
        let candidates =
            ["port", "law"].map(|name| (name.to_owned(), folder.0.join(format!("m/{name}.rs"))));
        let found = Reader::default().closure(&[folder.0.join("lib.rs")], &candidates);
        let expected = ["lib.rs", "m/law.rs", "port.rs"].map(|file| folder.0.join(file));
        assert!(found.unwrap().into_keys().eq(expected));
    }

    #[test]
    fn a_module_that_a_root_declares_counts_only_if_it_is_needed() {
        let text = |text: &str| {
            let source = Source::parse(text, Path::new("kapi/mod.rs"));
            text_of(&source.tokens, false)
        };
        let plain = text("use x::y;\nfn f() {}\n");
        let declared = "use x::y;\nmod a;\npub mod b;\npub(crate) mod c;\nfn f() {}\n";
        assert_eq!(text(declared), plain);
        assert_ne!(text("use x::y;\nmod a { fn g() {} }\nfn f() {}\n"), plain);
    }

    #[test]
    fn each_part_of_weft_has_a_hash_and_is_read_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let parts = parts(&root).unwrap();
        for name in [
            "kernel",
            "guest",
            "image",
            "engine",
            "measuring",
            "weaving",
            "gates",
            "ebpf",
            "weft-pase",
            "weft-arbiter",
        ] {
            assert!(parts[name].len() > 1000, "{name}");
        }
        for qdisc in weft_mechanisms::QDISCS {
            let module = &parts[&format!("sch_{}", qdisc.kind)];
            // Its root, its options, and the kernel's side.
            for said in [&format!("\"sch_{}\"", qdisc.kind), "TCA_OPTIONS", "weft_"] {
                assert!(module.contains(said), "{}: {said}", qdisc.kind);
            }
        }
        // The algorithm of one system is not in another one's part.
        assert!(
            parts["sch_bfc"].contains("\nElision\n")
                && !parts["sch_pfabric"].contains("\nElision\n")
        );
        assert!(parts["weft-pase"].contains("\nDelegation\n"));
    }
}
