// SPDX-License-Identifier: MIT OR Apache-2.0

//! Each allocation fails once: of each step in a qdisc's life, in a congestion control's, and of
//! loading each module. That is an error or goes unnoticed; what there was stays as it was, and the
//! same works afterwards. That nothing is lost, kmemleak says at the end of all tests, and of
//! modules their users after each.

use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::sys::socket::{setsockopt, sockopt};
use weft_mechanisms::common::mechanism;

use crate::faults::Faults;
use crate::modules;
use crate::netlink::{Handle, Netlink, Qdisc, QdiscRequest, Verb};
use crate::port::{FAR_IP, INDEX, Port};
use crate::tests::congestion;
use weft_ktap::{Context, tests};

tests![
    #[debug]
    a_qdisc_is_added_as_root,
    #[debug]
    a_qdisc_is_added_below_wire,
    #[debug]
    a_qdisc_is_changed,
    #[debug]
    a_qdisc_is_replaced,
    #[debug]
    a_qdisc_is_dumped,
    #[debug]
    a_qdisc_is_deleted,
    #[debug]
    a_congestion_control_is_chosen_and_used,
    #[debug]
    a_module_is_loaded,
];

const HANDLE: Handle = Handle::new(2, 0);

/// No step here makes as many allocations.
const MOST: u32 = 5000;

/// What came of a step, at each of its allocations.
#[derive(Default)]
struct Tally {
    refused: u32,
    unnoticed: u32,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.refused + self.unnoticed;
        write!(f, "{all} allocations, {} errors", self.refused)
    }
}

/// Calls `step` with its first allocation failing, then its second, until there are no more; after
/// each `settle`, which receives whether there was an error, puts things back and checks that the
/// step works. Both work on `state`.
fn each_allocation<S, T>(
    faults: Faults,
    state: &mut S,
    step: impl Fn(&mut S) -> Result<T>,
    settle: impl Fn(&mut S, &Result<T>) -> Result<()>,
) -> Result<Tally> {
    each_from(1, faults, state, step, settle)
}

/// The same from one of its allocations on.
fn each_from<S, T>(
    first: u32,
    faults: Faults,
    state: &mut S,
    step: impl Fn(&mut S) -> Result<T>,
    settle: impl Fn(&mut S, &Result<T>) -> Result<()>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    for nth in first..MOST {
        let (result, failed) = faults.at(nth, || step(state))?;
        let context = || {
            format!(
                "after allocation {nth} failed ({:?})",
                result.as_ref().err()
            )
        };
        if !failed {
            // The last time nothing fails.
            if let Err(error) = result {
                return Err(error).context("with all of its allocations");
            }
            settle(state, &result).context("with all of its allocations")?;
            ensure!(nth > first, "it allocates nothing");
            return Ok(tally);
        }
        settle(state, &result).with_context(context)?;
        match result {
            Ok(_) => tally.unnoticed += 1,
            Err(_) => tally.refused += 1,
        }
    }
    bail!("more than {MOST} allocations")
}

/// A kind of qdisc on a port, with options that make one.
struct Subject {
    port: Port,
    kind: &'static str,
    options: Vec<u8>,
    parent: Handle,
}

impl Subject {
    /// On a device of its own. The module is there from now on.
    fn new(qdisc: &mechanism::Qdisc) -> Result<Self> {
        let mut port = Port::new()?;
        let options = port.options_of(qdisc)?;
        Ok(Self {
            port,
            kind: qdisc.kind,
            options,
            parent: Handle::ROOT,
        })
    }

    /// The qdisc, if it is there.
    fn there(&mut self) -> Result<Option<Qdisc>> {
        self.port.netlink.find_qdisc(INDEX, HANDLE)
    }

    /// Over a socket of its own: an answer that there was no memory for is lost, and says so later.
    fn request(&self, netlink: &mut Netlink, verb: Verb) -> Result<()> {
        let request = QdiscRequest {
            index: INDEX,
            parent: self.parent,
            handle: HANDLE,
            kind: self.kind,
            options: Some(self.options.clone()),
        };
        netlink.qdisc(verb, &request)
    }

    fn add(&self) -> Result<()> {
        self.request(&mut self.socket()?, Verb::Add)
    }

    fn delete(&self) -> Result<()> {
        self.socket()?.delete_qdisc(INDEX, self.parent)
    }

    fn socket(&self) -> Result<Netlink> {
        Netlink::open(&self.port.near)
    }

    /// It is not there, or all that was asked for; then it goes. And it can be made.
    fn is_whole_or_absent(&mut self) -> Result<()> {
        if let Some(qdisc) = self.there()? {
            ensure!(
                qdisc.options == self.options,
                "a qdisc with other options: {qdisc:?}"
            );
            self.delete()?;
        }
        self.add().context("the same once more")?;
        self.delete()
    }
}

/// The kinds, each with what a step did under failing allocations.
fn each_kind(
    cx: &Context,
    mut step: impl FnMut(Faults, &mut Subject) -> Result<Tally>,
) -> Result<()> {
    let faults = Faults::prepare()?;
    for qdisc in weft_mechanisms::QDISCS {
        let name = || qdisc.kind;
        let mut subject = Subject::new(qdisc).with_context(name)?;
        let tally = step(faults, &mut subject).with_context(name)?;
        cx.note(format!("{}: {tally}", qdisc.kind));
    }
    Ok(())
}

/// Makes requests while allocations fail, then looks at what there is.
fn requests(
    faults: Faults,
    subject: &mut Subject,
    request: impl Fn(&Subject, &mut Netlink) -> Result<()>,
    settle: impl Fn(&mut Subject) -> Result<()>,
) -> Result<Tally> {
    let netlink = subject.socket()?;
    each_allocation(
        faults,
        &mut (subject, netlink),
        |(subject, netlink)| request(subject, netlink),
        |(subject, netlink), _| {
            *netlink = subject.socket()?;
            settle(subject)
        },
    )
}

fn a_qdisc_is_added_as_root(cx: &Context) -> Result<()> {
    each_kind(cx, |faults, subject| {
        let add = |subject: &Subject, netlink: &mut Netlink| subject.request(netlink, Verb::Add);
        requests(faults, subject, add, Subject::is_whole_or_absent)
    })
}

fn a_qdisc_is_added_below_wire(cx: &Context) -> Result<()> {
    each_kind(cx, |faults, subject| {
        subject
            .port
            .tc("qdisc add dev {v} root handle 1: wire rate 10mbit")?;
        subject.parent = Handle::new(1, 1);
        let add =
            |subject: &Subject, netlink: &mut Netlink| subject.request(netlink, Verb::Replace);
        requests(faults, subject, add, Subject::is_whole_or_absent)
    })
}

/// What is changed to the very options that it has.
fn changed(faults: Faults, subject: &mut Subject, verb: Verb) -> Result<Tally> {
    subject.add()?;
    let change = |subject: &Subject, netlink: &mut Netlink| subject.request(netlink, verb);
    requests(faults, subject, change, |subject| {
        let qdisc = subject.there()?.context("the qdisc is gone")?;
        ensure!(qdisc.options == subject.options, "other options: {qdisc:?}");
        Ok(())
    })
}

fn a_qdisc_is_changed(cx: &Context) -> Result<()> {
    each_kind(cx, |faults, subject| changed(faults, subject, Verb::Change))
}

fn a_qdisc_is_replaced(cx: &Context) -> Result<()> {
    each_kind(cx, |faults, subject| {
        changed(faults, subject, Verb::Replace)
    })
}

fn a_qdisc_is_dumped(cx: &Context) -> Result<()> {
    each_kind(cx, |faults, subject| {
        subject.add()?;
        let dump = |_: &Subject, netlink: &mut Netlink| netlink.qdiscs(INDEX).map(drop);
        requests(faults, subject, dump, |subject| {
            subject.there()?.context("the qdisc is gone").map(drop)
        })
    })
}

fn a_qdisc_is_deleted(cx: &Context) -> Result<()> {
    // What takes its place needs memory, too; the kernel says so, and does without.
    cx.expect_kernel_message("fallback to noqueue");
    each_kind(cx, |faults, subject| {
        subject.add()?;
        let delete =
            |subject: &Subject, netlink: &mut Netlink| netlink.delete_qdisc(INDEX, subject.parent);
        requests(faults, subject, delete, |subject| {
            subject.is_whole_or_absent()?;
            subject.add()
        })
    })
}

/// A socket with this congestion control connects, sends, and is closed.
fn a_congestion_control_is_chosen_and_used(cx: &Context) -> Result<()> {
    cx.expect_kernel_message("socket: no more sockets");
    let faults = Faults::prepare()?;
    for (name, module) in congestion::OURS {
        modules::load(module)?;
        let port = Port::new()?;
        let listener = port
            .far
            .enter(|| TcpListener::bind((Ipv4Addr::from(FAR_IP), 1000)))??;
        let use_it = |(): &mut ()| -> Result<()> {
            let mut socket = TcpStream::connect((Ipv4Addr::from(FAR_IP), 1000))?;
            setsockopt(&socket, sockopt::TcpCongestion, &name.into())?;
            Ok(socket.write_all(&[1; 3000])?)
        };
        let accept = || -> Result<()> {
            listener.set_nonblocking(true)?;
            while let Ok((mut accepted, _)) = listener.accept() {
                let mut bytes = [0; 4096];
                accepted.set_nonblocking(true)?;
                let _ = accepted.read(&mut bytes);
            }
            Ok(())
        };
        // In the near namespace as long as allocations fail: to go there and back allocates, too.
        let tally = port.near.enter(|| {
            each_allocation(faults, &mut (), use_it, |(), _| {
                accept()?;
                use_it(&mut ()).context("the same once more")?;
                accept()
            })
        })??;
        cx.note(format!("{name}: {tally}"));
    }
    Ok(())
}

/// Ours, as files.
fn module_files() -> Result<Vec<PathBuf>> {
    let release = nix::sys::utsname::uname()?;
    let folder = PathBuf::from("/usr/lib/modules").join(release.release());
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join("updates"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    Ok(files)
}

/// The last allocations of a module's loading: its own. The loader makes all before them.
const LAST: u32 = 40;

fn a_module_is_loaded(cx: &Context) -> Result<()> {
    cx.expect_kernel_message("sysctl could not get directory");
    let faults = Faults::prepare()?;
    for path in module_files()? {
        let name = path
            .file_stem()
            .context("no name")?
            .to_string_lossy()
            .into_owned();
        if modules::users(&name).is_some() {
            modules::remove_when_unused(&name)?;
        }
        let file = fs::File::open(&path)?;
        let load = || finit_module(&file, c"", ModuleInitFlags::empty());
        let (loaded, count) = faults.count(load)?;
        loaded.with_context(|| name.clone())?;
        modules::remove(&name)?;
        let tally = each_from(
            count.saturating_sub(LAST).max(1),
            faults,
            &mut (),
            |()| Ok(load()?),
            |(), loaded| {
                let there = modules::users(&name).is_some();
                ensure!(
                    there == loaded.is_ok(),
                    "loading: {loaded:?}; there: {there}"
                );
                if !there {
                    load().context("the same once more")?;
                }
                modules::remove_when_unused(&name)
            },
        )
        .with_context(|| name.clone())?;
        cx.note(format!("{name}, the last of {count}: {tally}"));
    }
    Ok(())
}
