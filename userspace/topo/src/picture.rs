// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures of a topology: for Graphviz, and as SVG.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::topology::{Kind, Node, NodeId, Topology};

/// The distance of two rows, and the height of a node, in px.
const ROW: f64 = 90.0;
const HEIGHT: f64 = 20.0;
/// The width of a letter, the frame of a node, and a node's minimum width, in px.
const LETTER: f64 = 7.0;
const LEAST: f64 = 10.0;
/// Maximum width of a picture. Nodes that are too narrow show no names.
const WIDEST: f64 = 1200.0;
const MARGIN: f64 = 10.0;

impl Topology {
    /// An undirected graph in the language of Graphviz: a rank per layer, hosts at the bottom, each
    /// link with its rate and delay. `dot -Tsvg` and similar tools draw it.
    pub fn dot(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = self.write_dot(&mut text);
        text
    }

    /// An SVG image, for a file or a page: a row per layer, hosts at the bottom, a line per link.
    /// Tooltips show a node's addresses, and a link's ends, rate and delay.
    pub fn svg(&self) -> String {
        let mut text = String::new();
        let _ = self.write_svg(&mut text);
        text
    }

    /// The layers from the bottom by name, each with its nodes: hosts, then switches in the
    /// topology's order.
    pub fn layers(&self) -> Vec<(&str, Vec<NodeId>)> {
        let mut layers: Vec<(&str, Vec<NodeId>)> = Vec::new();
        for id in self.hosts().chain(self.switches()) {
            let of_node = self.node(id).layer.as_str();
            match layers.iter_mut().find(|(layer, _)| *layer == of_node) {
                Some((_, nodes)) => nodes.push(id),
                None => layers.push((of_node, vec![id])),
            }
        }
        layers
    }

    fn write_dot(&self, out: &mut String) -> fmt::Result {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        writeln!(out, "graph {} {{", quoted(self.title()))?;
        writeln!(
            out,
            "  rankdir=BT; node [shape=box, height=0.2, margin=0.05];"
        )?;
        for (layer, nodes) in self.layers() {
            write!(out, "  {{ rank=same; // {layer}\n   ")?;
            for id in nodes {
                let node = self.node(id);
                let shape = match node.kind {
                    Kind::Host => " [shape=oval]",
                    Kind::Switch => "",
                };
                write!(out, " {}{shape};", quoted(&node.name))?;
            }
            writeln!(out, "\n  }}")?;
        }
        for link in self.links() {
            let [lower, upper] = link.ends.map(|(id, _)| quoted(&self.node(id).name));
            let label = format!("{} {}", link.wire.rate, link.wire.delay);
            writeln!(out, "  {lower} -- {upper} [tooltip=\"{label}\"];")?;
        }
        writeln!(out, "}}")
    }

    fn write_svg(&self, out: &mut String) -> fmt::Result {
        let layers = self.layers();
        let widest = |nodes: &[NodeId]| {
            let names = nodes.iter().map(|&id| self.node(id).name.len());
            LETTER * (names.max().unwrap_or(0) + 2) as f64
        };
        let wanted = layers
            .iter()
            .map(|(_, nodes)| widest(nodes) * nodes.len() as f64 * 1.2);
        let width = wanted.fold(0.0, f64::max).clamp(240.0, WIDEST);
        let height = ROW * (layers.len() - 1) as f64 + HEIGHT;
        let (all_width, all_height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width:.0} {all_height:.0}\" \
             width=\"{all_width:.0}\" height=\"{all_height:.0}\" font-family=\"sans-serif\" \
             font-size=\"11\" text-anchor=\"middle\" role=\"img\">\n<title>{}</title>",
            escaped(self.title())
        )?;
        // The centre of each node, and its width.
        let mut at: BTreeMap<NodeId, (f64, f64, f64)> = BTreeMap::new();
        for (row, (_, nodes)) in layers.iter().enumerate() {
            let share = width / nodes.len() as f64;
            let y = MARGIN + height - HEIGHT / 2.0 - ROW * row as f64;
            for (column, &id) in nodes.iter().enumerate() {
                let x = MARGIN + share * (column as f64 + 0.5);
                let node_width = widest(nodes).min(share * 0.9).max(LEAST.min(share));
                at.insert(id, (x, y, node_width));
            }
        }
        writeln!(
            out,
            "<g fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.45\">"
        )?;
        for link in self.links() {
            let [a, b] = link.ends.map(|(id, _)| at[&id]);
            let [from, to] = link.ends.map(|end| escaped(&self.end(end).to_string()));
            // A link between two nodes of a row is an arc above the nodes between them.
            let bow = if a.1 == b.1 { 0.6 * ROW } else { 0.0 };
            let (x, y) = ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0 - bow);
            writeln!(
                out,
                "<path d=\"M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}\"><title>{from} -- {to} {} {}</title></path>",
                a.0, a.1, b.0, b.1, link.wire.rate, link.wire.delay
            )?;
        }
        writeln!(out, "</g>")?;
        for (&id, &(x, y, node_width)) in &at {
            write_node(out, self.node(id), x, y, node_width)?;
        }
        writeln!(out, "</svg>")
    }
}

fn write_node(out: &mut String, node: &Node, x: f64, y: f64, width: f64) -> fmt::Result {
    let (fill, round) = match node.kind {
        Kind::Host => ("#dceaf7", HEIGHT / 2.0),
        Kind::Switch => ("#f4e3c1", 2.0),
    };
    let name = escaped(&node.name);
    write!(
        out,
        "<g><title>{name} ({}) {}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
         height=\"{HEIGHT}\" rx=\"{round}\" fill=\"{fill}\" stroke=\"#555\"/>",
        escaped(&node.layer),
        node.address.v4(),
        x - width / 2.0,
        y - HEIGHT / 2.0
    )?;
    if width >= LETTER * (node.name.len() + 1) as f64 {
        write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#222\">{name}</text>",
            y + 4.0
        )?;
    }
    writeln!(out, "</g>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
