// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs as filters of a `clsact` qdisc.
//!
//! With `direct-action` a program's return value is the verdict. `TC_ACT_UNSPEC` continues with the
//! next filter, and `TCX_NEXT`, which is the same number, with the next program. Programs at tcx
//! run before filters.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use anyhow::{Context as _, Result, bail};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcHeader, TcMessage,
    TcOption,
};

use crate::device::ask;

/// `tc` numbers filters from 49152 downwards, which is before this one.
const PRIORITY: u16 = 49_153;
/// `ETH_P_ALL`.
const ALL_PROTOCOLS: u16 = 3;
const CLSACT: &str = "clsact";

/// The direction of a device's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    fn parent(self) -> TcHandle {
        let minor = match self {
            Self::Ingress => TcHandle::MIN_INGRESS,
            Self::Egress => TcHandle::MIN_EGRESS,
        };
        TcHandle {
            minor,
            ..TcHandle::CLSACT
        }
    }
}

/// A filter that runs a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    device: u32,
    direction: Direction,
    handle: TcHandle,
    /// The program's identifier.
    pub(crate) program: u32,
    /// The value of `skb->tc_classid` that the program sees.
    pub(crate) class: u16,
}

/// Gives the device with this index a `clsact` qdisc; `false` if it has one.
pub(crate) fn add_qdisc(device: u32) -> Result<bool> {
    let message = message(
        qdisc_header(device),
        vec![TcAttribute::Kind(CLSACT.to_owned())],
    );
    let request = RouteNetlinkMessage::NewQueueDiscipline(message);
    match ask(request, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL) {
        Ok(_) => Ok(true),
        Err(error) => match errno(&error) {
            Some(libc::EEXIST) => Ok(false),
            Some(libc::ENOENT) => {
                Err(error).context("the kernel knows no qdisc `clsact` (CONFIG_NET_SCH_INGRESS)")
            }
            _ => Err(error).context("adding the qdisc clsact"),
        },
    }
}

/// Removes the `clsact` qdisc if it has no filters.
pub(crate) fn remove_unused_qdisc(device: u32) -> Result<()> {
    for direction in [Direction::Ingress, Direction::Egress] {
        let header = header(device, TcHandle::UNSPEC, direction.parent(), 0);
        let request = RouteNetlinkMessage::GetTrafficFilter(message(header, Vec::new()));
        if !ask(request, NLM_F_DUMP)?.is_empty() {
            return Ok(());
        }
    }
    let message = message(
        qdisc_header(device),
        vec![TcAttribute::Kind(CLSACT.to_owned())],
    );
    ask(RouteNetlinkMessage::DelQueueDiscipline(message), NLM_F_ACK)
        .context("removing the qdisc clsact")?;
    Ok(())
}

/// Adds a filter with a program to the device's `clsact` qdisc. The program sees `class` in
/// `skb->tc_classid`.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    name: &str,
    device: u32,
    direction: Direction,
    class: u16,
) -> Result<()> {
    let options = [
        TcFilterBpfOption::ClassId(TcHandle {
            major: 0,
            minor: class,
        }),
        TcFilterBpfOption::ProgFd(program.as_raw_fd() as u32),
        TcFilterBpfOption::ProgName(name.to_owned()),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    let attributes = vec![
        TcAttribute::Kind(TcFilterBpf::KIND.to_owned()),
        TcAttribute::Options(options.into_iter().map(TcOption::Bpf).collect()),
    ];
    let header = header(device, TcHandle::UNSPEC, direction.parent(), INFO);
    let request = RouteNetlinkMessage::NewTrafficFilter(message(header, attributes));
    match ask(request, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL) {
        Ok(_) => Ok(()),
        Err(error) if errno(&error) == Some(libc::ENOENT) => {
            Err(error).context("the kernel knows no filter `bpf` (CONFIG_NET_CLS_BPF)")
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn detach(filter: &Filter) -> Result<()> {
    let header = header(
        filter.device,
        filter.handle,
        filter.direction.parent(),
        INFO,
    );
    let kind = vec![TcAttribute::Kind(TcFilterBpf::KIND.to_owned())];
    let request = RouteNetlinkMessage::DelTrafficFilter(message(header, kind));
    ask(request, NLM_F_ACK)?;
    Ok(())
}

/// The filters with programs at weft's [`PRIORITY`].
pub(crate) fn attached(device: u32, direction: Direction) -> Result<Vec<Filter>> {
    let header = header(device, TcHandle::UNSPEC, direction.parent(), INFO);
    let request = RouteNetlinkMessage::GetTrafficFilter(message(header, Vec::new()));
    let mut found = Vec::new();
    for answer in ask(request, NLM_F_DUMP).context("asking for filters")? {
        let RouteNetlinkMessage::NewTrafficFilter(message) = answer else {
            bail!("the kernel's answer is about something else than filters");
        };
        let options = message.attributes.iter().filter_map(|one| match one {
            TcAttribute::Options(options) => Some(options),
            _ => None,
        });
        let (mut program, mut class) = (None, 0);
        for option in options.flatten() {
            match option {
                TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => program = Some(*id),
                TcOption::Bpf(TcFilterBpfOption::ClassId(handle)) => class = handle.minor,
                _ => {}
            }
        }
        // The dump also has a message without options for each kind and priority.
        found.extend(program.map(|program| Filter {
            device,
            direction,
            handle: message.header.handle,
            program,
            class,
        }));
    }
    Ok(found)
}

/// Priority and protocol; the kernel expects the protocol in network byte order.
const INFO: u32 = (PRIORITY as u32) << 16 | ALL_PROTOCOLS.to_be() as u32;

fn qdisc_header(device: u32) -> TcHeader {
    let handle = TcHandle {
        minor: 0,
        ..TcHandle::CLSACT
    };
    header(device, handle, TcHandle::CLSACT, 0)
}

fn header(device: u32, handle: TcHandle, parent: TcHandle, info: u32) -> TcHeader {
    TcHeader {
        index: device as i32,
        handle,
        parent,
        info,
        ..TcHeader::default()
    }
}

fn message(header: TcHeader, attributes: Vec<TcAttribute>) -> TcMessage {
    TcMessage::from_parts(header, attributes)
}

/// The error number of rtnetlink.
fn errno(error: &anyhow::Error) -> Option<i32> {
    error.downcast_ref::<io::Error>()?.raw_os_error()
}
