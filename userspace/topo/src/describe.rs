// SPDX-License-Identifier: MIT OR Apache-2.0

//! The whole plan as text, for people and golden tests. The same specification gives the same text.

use std::fmt::{self, Display, Write};

use crate::route::Route;
use crate::topology::{Node, NodeId, Topology};

impl Topology {
    /// Nodes with addresses, links with ports, rates and delays, and every routing table.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let hosts = self.hosts().count();
        let switches = self.nodes().len() - hosts;
        writeln!(out, "{}", self.title())?;
        writeln!(
            out,
            "{hosts} hosts, {switches} switches, {} links",
            self.links().len()
        )?;
        if let Some(bisection) = self.bisection() {
            let gbit = bisection.carried as f64 / 1e9;
            let ratio = bisection.oversubscription();
            writeln!(out, "bisection {gbit} Gbit/s, oversubscription {ratio}")?;
        }
        out.push_str("\nnodes\n");
        for Node {
            name,
            layer,
            address,
            ..
        } in self.nodes()
        {
            writeln!(out, "  {name} {layer} {} {}", address.v4(), address.v6())?;
        }
        out.push_str("\ngroups\n");
        for group in self.groups() {
            let names: Vec<_> = group
                .hosts
                .iter()
                .map(|&id| self.node(id).name.as_str())
                .collect();
            writeln!(out, "  {} {}", group.name, names.join(" "))?;
        }
        out.push_str("\nlinks\n");
        for link in self.links() {
            let [lower, upper] = link.ends.map(|end| self.end(end));
            let wire = link.wire;
            writeln!(
                out,
                "  {lower} -- {upper} {} {} {}",
                link.layer, wire.rate, wire.delay
            )?;
        }
        out.push_str("\nroutes\n");
        for (id, routes) in self.ids().zip(self.routes()) {
            writeln!(out, "  {}", self.node(id).name)?;
            self.write_routes(out, id, &routes.v4)?;
            self.write_routes(out, id, &routes.v6)?;
        }
        Ok(())
    }

    pub(crate) fn end(&self, (id, port): (NodeId, usize)) -> String {
        let node = self.node(id);
        let port = &node.ports[port];
        format!("{}:{} {}", node.name, port.name, port.mac)
    }

    fn write_routes<A: Display>(
        &self,
        out: &mut String,
        id: NodeId,
        routes: &[Route<A>],
    ) -> fmt::Result {
        for route in routes {
            write!(out, "    {}", route.prefix)?;
            if route.next_hops.is_empty() {
                out.push_str(" unreachable");
            }
            for hop in &route.next_hops {
                write!(
                    out,
                    " via {} dev {}",
                    hop.gateway,
                    self.node(id).ports[hop.port].name
                )?;
            }
            out.push('\n');
        }
        Ok(())
    }
}
