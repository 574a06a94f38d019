// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several testbeds, and testbeds created by hand.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use weft_ktap::{Context, tests};

use crate::folder::Folder;
use crate::machine::{Machine, json, shell};
use crate::weft::{Up, require_programs, weft};

tests![
    #[once]
    several_testbeds_are_up_at_once,
    the_commands_of_a_dry_run_make_the_same_fabric,
    #[once]
    the_commands_of_a_dry_run_start_the_same_programs,
    routes_give_hosts_a_restricted_congestion_control,
];

/// The output of `weft ls --json` for the testbeds, without their creation time.
fn listed() -> Result<Vec<Value>> {
    let mut entries: Vec<Value> = serde_json::from_str(&weft("ls --json")?)?;
    for entry in &mut entries {
        let created = entry.as_object_mut().and_then(|it| it.remove("created"));
        ensure!(created.is_some_and(|it| it.is_u64()), "{entry}");
    }
    Ok(entries)
}

fn ping(testbed: &str, from: &str, to: &str) -> Result<()> {
    weft(&format!(
        "exec {from} --testbed {testbed} -- ping -c 1 -W 5 {to}"
    ))
    .map(drop)
}

fn several_testbeds_are_up_at_once(_: &Context) -> Result<()> {
    require_programs()?;
    let before = Machine::now()?;
    let one = Up::new("one", "rack:hosts=2 --scheme pfabric")?;
    let only_one = Machine::now()?;
    // The same addresses, with different wires.
    let other = Up::new(
        "other",
        "dumbbell:left=1,right=1 --dilation 100 --scheme droptail",
    )?;
    let expected = serde_json::json!([
        {
            "testbed": "one", "complete": true, "topology": "rack:hosts=2", "scheme": "pfabric",
            "dilation": "1", "nodes": ["h0", "h1", "tor0"],
        },
        {
            "testbed": "other", "complete": true, "topology": "dumbbell:left=1,right=1",
            "scheme": "droptail", "dilation": "100", "nodes": ["h0", "h1", "tor0", "tor1"],
        },
    ]);
    let listed = Value::from(listed()?);
    ensure!(listed == expected, "{listed:#}");
    ping("one", "h0", "h1")?;
    ping("other", "h1", "h0")?;
    drop(other);
    only_one.ensure_unchanged()?;
    ping("one", "h1", "h0")?;
    drop(one);
    before.ensure_unchanged()
}

/// All settings of a namespace that iproute2 and sysctl print, without the indices of other
/// namespaces.
fn everything(namespace: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for line in [
        "ip -j -d -n NS address",
        "ip -j -d -n NS route show table all",
        "ip -j -d -6 -n NS route show table all",
        "ip -j -d -n NS neighbour",
        "tc -j -d -n NS qdisc",
    ] {
        for mut value in json(&line.replace("NS", namespace))? {
            if let Some(object) = value.as_object_mut() {
                object.remove("link_netnsid");
            }
            all.push(value.to_string());
        }
    }
    let sysctls = shell(&format!(
        "ip netns exec {namespace} sysctl -a 2>/dev/null || true"
    ))?;
    let own = sysctls.lines().filter(|line| {
        // Random settings, and those of the whole machine, differ.
        line.starts_with("net.") && !line.contains("stable_secret")
    });
    all.extend(own.map(str::to_owned));
    // Neighbours are in the order of a hash table.
    all.sort_unstable();
    Ok(all)
}

/// The state of weft's programs at a port.
fn programs(namespace: &str) -> Result<Vec<String>> {
    let links = json(&format!("ip -j -n {namespace} link"))?;
    let names = links.iter().filter_map(|link| link["ifname"].as_str());
    names
        .filter(|name| *name != "lo")
        .map(|name| {
            shell(&format!(
                "weft-tag stats --netns {namespace} --dev {name} --json"
            ))
        })
        .collect()
}

/// Creates `words` with `weft up`, and by the commands that `--dry-run` prints; compares each node.
fn compare(cx: &Context, words: &str, look: fn(&str) -> Result<Vec<String>>) -> Result<()> {
    // Reading all variables causes this message.
    cx.expect_kernel_message("is using deprecated sysctl");
    let before = Machine::now()?;
    let folder = Folder::new()?;
    let script = weft(&format!("up {words} --testbed script --dry-run"))?;
    before.ensure_unchanged().context("a dry run")?;
    let script = folder.write("script", &script)?;
    shell(&format!("sh -e {}", script.display()))?;
    let woven = Up::new("woven", words)?;
    // A link's other end detects its carrier in the background.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let entries = listed_nodes("woven")?;
    ensure!(!entries.is_empty() && entries == listed_nodes("script")?);
    let mut count = 0;
    for node in &entries {
        let [ours, theirs] = ["woven", "script"].map(|name| look(&format!("weft-{name}-{node}")));
        let (ours, theirs) = (ours?, theirs?);
        let lines = ours.iter().zip(&theirs);
        for (ours, theirs) in lines {
            ensure!(ours == theirs, "{node}:\nup      {ours}\nscript  {theirs}");
        }
        ensure!(
            ours.len() == theirs.len(),
            "{node}: {} and {}",
            ours.len(),
            theirs.len()
        );
        count += ours.len();
    }
    cx.note(format!("{} nodes, {count} facts", entries.len()));
    // Only `weft up` makes names resolvable, so this uses an address.
    let addresses = json("ip -j -4 -n weft-script-h1 address show dev lo")?;
    let own = &addresses[0]["addr_info"][0]["local"];
    ping("script", "h0", own.as_str().context("h1 has no address")?)?;
    drop(woven);
    weft("down script")?;
    before.ensure_unchanged()
}

fn listed_nodes(testbed: &str) -> Result<Vec<String>> {
    let entries: Vec<Value> = serde_json::from_str(&weft("ls --json")?)?;
    let entry = entries.iter().find(|entry| entry["testbed"] == testbed);
    let nodes = entry.and_then(|entry| entry["nodes"].as_array());
    let nodes = nodes.with_context(|| format!("{testbed} is not listed"))?;
    let name = |node: &Value| node.as_str().unwrap_or_default().to_owned();
    Ok(nodes.iter().map(name).collect())
}

fn the_commands_of_a_dry_run_make_the_same_fabric(cx: &Context) -> Result<()> {
    let words = "leaf-spine:leaves=2,spines=2,hosts=1 --dilation 1000 --scheme dctcp";
    compare(cx, words, everything)
}

fn the_commands_of_a_dry_run_start_the_same_programs(cx: &Context) -> Result<()> {
    require_programs()?;
    compare(
        cx,
        "rack:hosts=2 --dilation 1000 --scheme pfabric",
        |node| {
            let mut all = everything(node)?;
            all.extend(programs(node)?);
            Ok(all)
        },
    )
}

/// Also, the module with a scheme's settings is loaded before they are set.
fn routes_give_hosts_a_restricted_congestion_control(_: &Context) -> Result<()> {
    require_programs()?;
    for (scheme, name) in [("pfabric", "pfabric"), ("bfc-cc", "bfc")] {
        shell(&format!("rmmod tcp_{name} 2>/dev/null || true"))?;
        let testbed = Up::new("cc", &format!("rack:hosts=2 --scheme {scheme}"))?;
        let routes = shell("ip -n weft-cc-h0 route")?;
        ensure!(routes.contains(&format!("congctl {name}")), "{routes}");
        let allowed = shell("cat /proc/sys/net/ipv4/tcp_allowed_congestion_control")?;
        ensure!(
            !allowed.split_whitespace().any(|it| it == name),
            "everybody may choose {allowed}"
        );
        drop(testbed);
    }
    Ok(())
}
