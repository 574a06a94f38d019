// SPDX-License-Identifier: MIT OR Apache-2.0

//! A scheme that extends another one inherits everything that it does not set.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weft_lab::parameter::Value;
use weft_lab::scheme::{Fallback, Packets, Policy, Scheme, Spray, names};

use super::{WIRE, folder, plan, refusal};

const BASE: &str = "\
about = \"The base.\"
source = \"A. Author, 2026.\"
[parameters]
buffer = { value = 24, about = \"packets\" }
mode = { value = \"slow\", words = [\"slow\", \"quick\"], about = \"how\" }
rto = { value = \"3 $rtt\", about = \"timeout\" }
[tag]
policy = \"remaining\"
fallback = \"queued\"
packets = \"all\"
[routing]
spray = \"random\"
[[process]]
on = \"first-host\"
run = '''arbiter --say \"it's \\$5\" $rto'''
";

/// A folder with the scheme `base`, and others with these descriptions.
fn schemes(name: &str, others: &[(&str, &str)]) -> PathBuf {
    let mut files = vec![
        ("base/scheme.toml".to_owned(), BASE),
        ("base/switch.tc".to_owned(), WIRE),
        ("base/host.tc".to_owned(), WIRE),
        ("base/host.sysctl".to_owned(), "net.ipv4.tcp_ecn = 1\n"),
    ];
    for (path, text) in others {
        let file = if path.contains('/') {
            ""
        } else {
            "/scheme.toml"
        };
        files.push((format!("{path}{file}"), text));
    }
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    folder(&format!("extends-{name}"), &files)
}

fn find(folder: &Path, name: &str) -> anyhow::Result<Scheme> {
    Scheme::find(folder.join(name).to_str().unwrap())
}

fn texts(scheme: &Scheme) -> BTreeMap<String, String> {
    let files = scheme.files();
    let files = files.map(|(name, source)| (name.to_owned(), source.text().to_owned()));
    files.filter(|(name, _)| name != "scheme.toml").collect()
}

/// The effective content of a scheme, without the name of the scheme that it extends.
fn all(scheme: &Scheme) -> String {
    let mut description = scheme.description.clone();
    description.extends = None;
    format!("{description:?}\n{:?}", texts(scheme))
}

#[test]
fn a_child_inherits_the_settings_that_it_omits() {
    let folder = schemes("nothing", &[("child", "extends = \"../base\"")]);
    let (base, child) = (
        find(&folder, "base").unwrap(),
        find(&folder, "child").unwrap(),
    );
    assert_eq!(child.name, "child");
    assert_eq!(child.description.extends.as_deref(), Some("../base"));
    assert_eq!(all(&child), all(&base));
    assert_eq!(base.description.extends, None);
    // The export has the same.
    let alone = stand_alone("nothing", &child);
    assert_eq!(alone.description.extends, None);
    assert_eq!(all(&alone), all(&base));
    let processes = &alone.description.process;
    assert_eq!(processes[0].run, "arbiter --say \"it's \\$5\" $rto");
}

#[test]
fn a_file_can_belong_to_a_third_scheme() {
    let lossless = format!("{WIRE}qdisc add dev $dev parent 1: handle 10: pfifo limit 1000\n");
    let others = [
        ("third", "extends = \"../base\""),
        ("third/host.tc", lossless.as_str()),
        (
            "child",
            "extends = \"../base\"\nfiles.\"host.tc\" = \"../third\"",
        ),
        (
            "none",
            "extends = \"../base\"\nfiles.\"host.route\" = \"../third\"",
        ),
        (
            "toml",
            "extends = \"../base\"\nfiles.\"scheme.toml\" = \"../third\"",
        ),
        (
            "loop",
            "extends = \"../base\"\nfiles.\"host.tc\" = \"../loop\"",
        ),
    ];
    let folder = schemes("third", &others);
    let child = find(&folder, "child").unwrap();
    assert_eq!(texts(&child)["host.tc"], lossless);
    assert_eq!(texts(&child)["switch.tc"], WIRE);
    // A guest is given all of them.
    for name in ["base", "third", "child"] {
        let mut folders = child.folders().iter();
        assert!(folders.any(|it| it.ends_with(name)), "{name}");
    }
    assert_eq!(all(&stand_alone("third", &child)), all(&child));
    for (name, expected) in [
        (
            "none",
            "none/scheme.toml: files: \"host.route\" = \"../third\": ../third has no such file",
        ),
        (
            "toml",
            "toml/scheme.toml: files: \"scheme.toml\" = \"../third\": ../third has no such file",
        ),
        (
            "loop",
            "loop/scheme.toml: files: \"host.tc\" = \"../loop\": loop extends loop",
        ),
    ] {
        let refusal = refusal(find(&folder, name));
        assert!(refusal.starts_with(expected), "{name}: {refusal}");
    }
}

/// Exports a scheme, like `weft schemes export`.
fn stand_alone(name: &str, scheme: &Scheme) -> Scheme {
    let files: Vec<_> = scheme.files().map(|(name, it)| (name, it.text())).collect();
    let folder = folder(&format!("alone-{name}"), &files);
    Scheme::find(folder.to_str().unwrap()).unwrap()
}

#[test]
fn a_child_overrides_single_settings_and_files() {
    let own = "\
extends = \"../base\"
without = [\"rto\"]
about = \"The child.\"
process = []
[parameters]
buffer = { value = 48 }
mode = { about = \"how, here\" }
more = { value = \"$bdp\" }
[tag]
policy = \"size\"
[routing]
spray = \"off\"
";
    let more = format!("{WIRE}qdisc add dev $dev parent 1: handle 10: pfifo limit $buffer\n");
    let others = [
        ("child", own),
        ("child/switch.tc", &more),
        ("child/host.route", "initcwnd $more\n"),
        (
            "grandchild",
            "extends = \"../child\"\n[parameters]\nmode = { value = \"quick\" }",
        ),
    ];
    let folder = schemes("some", &others);
    let child = find(&folder, "child").unwrap();
    let said = &child.description;
    assert_eq!(
        (&*said.about, &*said.source),
        ("The child.", "A. Author, 2026.")
    );
    let tag = said.tag.unwrap();
    assert_eq!((tag.policy, tag.fallback), (Policy::Size, Fallback::Queued));
    assert_eq!(tag.packets, Packets::All);
    assert_eq!(said.routing.spray, Spray::Off);
    let parameters: Vec<_> = said.parameters.iter().collect();
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["buffer", "mode", "more"]);
    assert_eq!(said.parameters["buffer"].value, Value::Number(48));
    assert_eq!(said.parameters["buffer"].about, "packets");
    assert_eq!(
        said.parameters["mode"].value,
        Value::Text("slow".to_owned())
    );
    assert_eq!(said.parameters["mode"].about, "how, here");
    assert_eq!(said.process, []);
    let files = texts(&child);
    assert_eq!(files["switch.tc"], more);
    assert_eq!(files["host.tc"], WIRE);
    assert_eq!(files["host.sysctl"], "net.ipv4.tcp_ecn = 1\n");
    assert_eq!(files["host.route"], "initcwnd $more\n");

    let grandchild = find(&folder, "grandchild").unwrap();
    let quick = &grandchild.description.parameters["mode"];
    assert_eq!(quick.value, Value::Text("quick".to_owned()));
    assert_eq!(quick.words, ["slow", "quick"]);
    assert_eq!(texts(&grandchild), files);
    plan(&folder.join("grandchild")).unwrap();
}

#[test]
fn limits_of_gates_are_inherited_one_by_one() {
    let gates = ["time limited by socket buffers", "idle processor"];
    let limits = |socket: u32, idle: u32| {
        let [first, second] = gates;
        format!("[allow]\n{first:?} = {socket}\n{second:?} = {idle}\n")
    };
    let child = "extends = \"../parent\"\n[allow]\n\"idle processor\" = 2\n";
    let parent = format!("extends = \"../base\"\n{}", limits(30, 1));
    let unknown = "extends = \"../base\"\n[allow]\nidleness = 1\n";
    let infinite = "extends = \"../base\"\n[allow]\n\"idle processor\" = inf\n";
    let folder = schemes(
        "gates",
        &[
            ("parent", &parent),
            ("child", child),
            ("unknown", unknown),
            ("infinite", infinite),
        ],
    );
    let child = find(&folder, "child").unwrap();
    let expected = gates.map(str::to_owned).into_iter().zip([30.0, 2.0]);
    assert_eq!(child.description.allow, expected.collect());
    assert_eq!(all(&stand_alone("gates", &child)), all(&child));
    let refused = |name| find(&folder, name).unwrap_err().to_string();
    assert!(
        refused("unknown").starts_with("unknown/scheme.toml: allow: there is no gate `idleness`"),
        "{}",
        refused("unknown")
    );
    assert_eq!(
        refused("infinite"),
        "infinite/scheme.toml: allow: the limit of the gate `idle processor` is inf"
    );
}

#[test]
fn an_error_in_an_inherited_file_names_the_parent() {
    let others = [
        ("broken", "about = \"a\""),
        ("broken/host.tc", WIRE),
        (
            "broken/switch.tc",
            "# About.\nqdisc add dev $dev root pfabric limi 5\n",
        ),
        ("child", "extends = \"../broken\""),
    ];
    let refusal = refusal(plan(&schemes("place", &others).join("child")));
    assert!(
        refusal.starts_with("broken/switch.tc:2: pfabric: `limi`"),
        "{refusal}"
    );
}

#[test]
fn invalid_extensions_are_refused() {
    let others = [
        ("itself", "extends = \"../itself\""),
        ("one", "extends = \"../two\""),
        ("two", "extends = \"../three/../three\""),
        ("three", "extends = \"../one\""),
        ("unknown", "extends = \"pfabrik\""),
        ("nowhere", "extends = \"../nothing\""),
        ("empty/README.md", ""),
        ("of-none", "extends = \"../empty\""),
        ("less", "extends = \"../base\"\nwithout = [\"rtoo\"]"),
        (
            "valueless",
            "extends = \"../base\"\n[parameters]\nnew = { about = \"a\" }",
        ),
        ("misspelt", "extends = \"../base\"\nabuot = \"a\""),
        (
            "unused",
            "extends = \"../base\"\n[parameters]\nrtoo = { value = 3 }",
        ),
        ("orphan", "about = \"a\"\nwithout = [\"rto\"]"),
    ];
    let folder = schemes("refused", &others);
    for (name, expected) in [
        (
            "itself",
            "itself/scheme.toml: extends = \"../itself\": itself extends itself",
        ),
        (
            "one",
            "three/scheme.toml: extends = \"../one\": one extends two extends three extends one",
        ),
        (
            "unknown",
            "unknown/scheme.toml: extends = \"pfabrik\": there is no scheme `pfabrik`; nearest is pfabric: expected one of bbr,",
        ),
        (
            "nowhere",
            "nowhere/scheme.toml: extends = \"../nothing\": there is no folder ../nothing",
        ),
        ("of-none", "empty is no scheme: it has no file scheme.toml"),
        (
            "less",
            "less/scheme.toml: without: there is no parameter `rtoo` to leave out",
        ),
        (
            "valueless",
            "valueless/scheme.toml: parameter new: it needs a value",
        ),
        (
            "misspelt",
            "misspelt/scheme.toml: TOML parse error at line 2",
        ),
        (
            "unused",
            "unused/scheme.toml: parameter rtoo: no file of the scheme uses $rtoo; nearest is rto",
        ),
        ("orphan", "orphan/scheme.toml: TOML parse error at line 2"),
    ] {
        let refusal = refusal(find(&folder, name));
        assert!(refusal.starts_with(expected), "{name}: {refusal}");
    }
}

#[test]
fn every_scheme_of_weft_equals_its_export_without_parents() {
    for name in names() {
        let scheme = Scheme::find(name).unwrap();
        let alone = stand_alone(name, &scheme);
        assert_eq!(alone.description.extends, None, "{name}");
        assert_eq!(all(&alone), all(&scheme), "{name}");
    }
}

/// Schemes share files by extension: no file is a copy of another scheme's.
#[test]
fn no_scheme_of_weft_has_a_copy_of_anothers_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tc-configs");
    let mut seen: BTreeMap<String, (&str, PathBuf)> = BTreeMap::new();
    for name in names() {
        for file in fs::read_dir(folder.join(name)).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            if let Some((other, first)) = seen.insert(text, (name, path.clone())) {
                // Both ends of one scheme's ports may have equal files.
                assert_eq!(other, name, "{} is {}", path.display(), first.display());
            }
        }
    }
}
