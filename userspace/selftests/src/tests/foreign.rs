// SPDX-License-Identifier: MIT OR Apache-2.0

//! Schemes with qdiscs and congestion controls that weft does not know: others of the kernel, and
//! custom ones.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::folder::Folder;
use crate::machine::{Machine, shell};
use crate::weft::{self, Up, refusal, weft};

tests![
    #[exact = "a run must be valid, which late timers prevent"]
    a_fabric_of_cake,
    #[exact = "a run must be valid, which late timers prevent"]
    a_fabric_of_htb_with_classes_and_filters,
    #[exact = "a run must be valid, which late timers prevent"]
    a_fabric_of_netem,
    #[exact = "a run must be valid, which late timers prevent"]
    a_fabric_of_codel,
    #[exact = "a run must be valid, which late timers prevent"]
    a_fabric_of_bbr,
    a_refusal_by_tc_names_the_file_and_line,
    missing_parts_of_the_kernel_are_found_before_the_first_run,
    a_module_is_loaded_by_its_file,
];

/// 1 Gbit/s, slowed to 10 Mbit/s.
const FABRIC: &str = "rack:hosts=3,rate=1gbit,delay=1us --dilation 100";
const WIRE: &str = "qdisc add dev $dev root handle 1: wire rate $rate delay $delay overhead 24 mpu 84 slack $slack\n";

/// A scheme with droptail's hosts and with `lines` at a switch's ports, below the wire.
fn scheme(folder: &Folder, name: &str, parameters: &str, lines: &str) -> Result<PathBuf> {
    let toml =
        format!("extends = \"droptail\"\nabout = \"Of a test.\"\n[parameters]\n{parameters}\n");
    let place = folder.scheme(name, &toml)?;
    folder.write(&format!("{name}/switch.tc"), &format!("{WIRE}{lines}"))?;
    Ok(place)
}

/// Creates a fabric, in which the qdiscs, classes and filters of a switch's port must show `words`;
/// then runs flows on it, which must all arrive.
fn carries(cx: &Context, scheme: &str, words: &[&str]) -> Result<()> {
    let woven = Up::new("foreign", &format!("{FABRIC} --scheme {scheme}"))?;
    let mut said = String::new();
    for object in ["qdisc", "class", "filter"] {
        said += &shell(&format!(
            "tc -n weft-foreign-tor0 {object} show dev h1; tc -n weft-foreign-tor0 {object} show dev h1 parent 2:"
        ))?;
    }
    cx.note(said.clone());
    for word in words {
        ensure!(said.contains(word), "no `{word}`: {said}");
    }
    drop(woven);
    let trace = "0 0 1 100000\n0 2 1 50000\n5000000 1 0 1000\n";
    let folder = Folder::new()?;
    let trace = folder.write("trace", trace)?;
    let words = format!(
        "{FABRIC} --scheme {scheme} --trace {} --warm-up 0",
        trace.display()
    );
    let run = weft::run(&words)?;
    ensure!(run.flows.len() == 3, "{} flows", run.flows.len());
    ensure!(
        run.flows.iter().all(|flow| flow.slowdown.is_some()),
        "{:?}",
        run.flows
    );
    Ok(())
}

fn own(cx: &Context, parameters: &str, lines: &str, words: &[&str]) -> Result<()> {
    let folder = Folder::new()?;
    let place = scheme(&folder, "mine", parameters, lines)?;
    carries(cx, &place.display().to_string(), words)
}

fn a_fabric_of_cake(cx: &Context) -> Result<()> {
    own(
        cx,
        "rtt = { value = \"50us\" }\ncap = { value = \"0.9 $rate\" }",
        "qdisc add dev $dev parent 1: handle 2: cake bandwidth $cap rtt $rtt besteffort flows",
        &["cake 2: parent 1:", "bandwidth 9Mbit", "rtt 5ms"],
    )
}

fn a_fabric_of_htb_with_classes_and_filters(cx: &Context) -> Result<()> {
    own(
        cx,
        "share = { value = \"0.25 $rate\" }\nleast = { value = \"100mbit\" }",
        "qdisc add dev $dev parent 1: handle 2: htb default 20\n\
         class add dev $dev parent 2: classid 2:1 htb rate $rate\n\
         class add dev $dev parent 2:1 classid 2:10 htb rate $share ceil $rate\n\
         class add dev $dev parent 2:1 classid 2:20 htb rate $least ceil $rate\n\
         # What weft knows, below what it does not.\n\
         qdisc add dev $dev parent 2:10 handle 10: pfifo limit $buffer\n\
         qdisc add dev $dev parent 2:20 handle 20: sfq perturb 10\n\
         filter add dev $dev parent 2: protocol ip prio 1 u32 match ip src 10.0.0.0/8 flowid 2:10",
        &[
            "htb 2: parent 1:",
            "htb 2:10 parent 2:1 leaf 10:",
            "rate 2500Kbit ceil 10Mbit",
            "rate 1Mbit ceil 10Mbit",
            "pfifo 10: parent 2:10 limit 150p",
            "sfq 20: parent 2:20",
            "u32",
        ],
    )
}

fn a_fabric_of_netem(cx: &Context) -> Result<()> {
    own(
        cx,
        "more = { value = \"3us\" }",
        "qdisc add dev $dev parent 1: handle 2: netem limit $buffer delay $more loss 1% seed 7",
        &["netem 2: parent 1:", "delay 300us", "loss 1%"],
    )
}

fn a_fabric_of_codel(cx: &Context) -> Result<()> {
    carries(
        cx,
        "cubic-codel",
        &[
            "codel 10: parent 1:",
            "target 1.5ms",
            "interval 15ms",
            "ecn",
        ],
    )
}

fn a_fabric_of_bbr(cx: &Context) -> Result<()> {
    let up = Up::new("bbr", &format!("{FABRIC} --scheme bbr"))?;
    let routes = shell("ip -n weft-bbr-h0 route show; tc -n weft-bbr-h0 qdisc show")?;
    ensure!(routes.contains(" congctl bbr "), "{routes}");
    ensure!(routes.contains("fq 10:"), "{routes}");
    drop(up);
    carries(cx, "bbr", &["pfifo 10: parent 1:"])
}

fn a_refusal_by_tc_names_the_file_and_line(cx: &Context) -> Result<()> {
    let before = Machine::now()?;
    let folder = Folder::new()?;
    for (number, (line, why)) in [
        (
            "qdisc add dev $dev parent 1: handle 2: htb defalt 20",
            "mine0/switch.tc:3: tor0: `tc qdisc add dev h0 parent 1: handle 2: htb defalt 20`: What is \"defalt\"?",
        ),
        (
            "class add dev $dev parent 1: classid 1:7 htb rate $rate",
            "mine1/switch.tc:3: tor0: `tc class add dev h0 parent 1: classid 1:7 htb rate 10mbit`: ",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let lines = format!("# Wrong:\n{line}\n");
        let place = scheme(&folder, &format!("mine{number}"), "", &lines)?;
        let sentence = refusal(&format!("up {FABRIC} --scheme {}", place.display()))?;
        cx.note(sentence.clone());
        ensure!(sentence.starts_with(why), "{sentence}");
        before.ensure_unchanged()?;
    }
    Ok(())
}

fn missing_parts_of_the_kernel_are_found_before_the_first_run(cx: &Context) -> Result<()> {
    let folder = Folder::new()?;
    let qdisc = scheme(
        &folder,
        "queue",
        "",
        "qdisc add dev $dev parent 1: nonsense",
    )?;
    let control = scheme(&folder, "control", "", "")?;
    folder.write("control/host.route", "congctl nonsense\n")?;
    let results = folder.path().join("results");
    for (place, part) in [
        (
            qdisc,
            "scheme queue: this kernel lacks the qdisc nonsense; ",
        ),
        (
            control,
            "scheme control: this kernel lacks the congestion control nonsense; ",
        ),
    ] {
        let words = format!(
            "run {FABRIC} --scheme droptail,{} --out {}",
            place.display(),
            results.display()
        );
        let sentence = refusal(&words)?;
        cx.note(sentence.clone());
        ensure!(sentence.starts_with(part), "{sentence}");
        ensure!(sentence.contains("--module FILE names its "), "{sentence}");
        ensure!(!results.exists(), "droptail was run");
        let words = format!("up {FABRIC} --scheme {}", place.display());
        let sentence = refusal(&words)?;
        ensure!(sentence.contains("this kernel lacks the "), "{sentence}");
    }
    Ok(())
}

fn a_module_is_loaded_by_its_file(cx: &Context) -> Result<()> {
    const LOADED: &str = "/sys/module/sch_hold";
    let file = shell("modinfo -n sch_hold")?;
    let content = fs::read(file.trim()).context("the module")?;
    shell("rmmod sch_hold 2> /dev/null || :")?;
    ensure!(!Path::new(LOADED).exists());
    let folder = Folder::new()?;
    let module = folder.path().join("own.ko");
    fs::write(&module, &content)?;
    let place = scheme(
        &folder,
        "mine",
        "",
        "qdisc add dev $dev parent 1: handle 2: hold",
    )?;
    let words = |module: &Path| {
        format!(
            "{FABRIC} --scheme {} --module {}",
            place.display(),
            module.display()
        )
    };
    let script = weft(&format!("up {} --dry-run", words(&module)))?;
    ensure!(script.contains(" || insmod "), "{script}");
    ensure!(!Path::new(LOADED).exists(), "a dry run loads it");
    // Twice: the same module may be loaded already.
    for _ in 0..2 {
        let _up = Up::new("own", &words(&module))?;
        ensure!(Path::new(LOADED).exists());
        let qdiscs = shell("tc -n weft-own-tor0 qdisc show")?;
        ensure!(qdiscs.contains("hold 2: dev h2 parent 1:"), "{qdiscs}");
    }
    // Another module with this name is detected by its build ID.
    let note = fs::read(format!("{LOADED}/notes/.note.gnu.build-id"))?;
    let mut at = content.windows(note.len());
    let at = at.position(|it| it == note).context("no build id")?;
    let mut other = content;
    other[at + note.len() - 1] ^= 1;
    let other_file = folder.path().join("other.ko");
    fs::write(&other_file, &other)?;
    let sentence = refusal(&format!("up {}", words(&other_file)))?;
    cx.note(sentence.clone());
    ensure!(
        sentence.ends_with("another sch_hold is loaded; `rmmod sch_hold` removes it"),
        "{sentence}"
    );
    shell("rmmod sch_hold")?;
    Ok(())
}
