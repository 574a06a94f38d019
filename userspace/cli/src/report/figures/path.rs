// SPDX-License-Identifier: MIT OR Apache-2.0

//! The path of the packet with the most hops: one panel for each scheme whose run traced packets
//! (as in K. Zarifis et al., DIBS, EuroSys 2014, Figure 1).

use std::collections::BTreeMap;

use maud::{Markup, html};
use weft_lab::results::Group;
use weft_load::record::{PacketPath, PathHop};

use super::{Figure, Panel};

/// Distance between rows, height of a node, width of a letter, and margins, in px.
const ROW: f64 = 110.0;
const HEIGHT: f64 = 22.0;
const LETTER: f64 = 7.5;
const MARGIN: f64 = 14.0;
/// Minimum width of a row, and per node in it.
const WIDTH: f64 = 460.0;
const SHARE: f64 = 90.0;
/// How far an arc bends, relative to its length and at most: the two directions of a link are two
/// arcs.
const BOW: f64 = 0.12;
const FARTHEST: f64 = 22.0;
/// Maximum width of an arc.
const WIDEST: f64 = 7.0;

/// A direction of a link.
#[derive(Debug, PartialEq)]
struct Arc<'a> {
    from: &'a str,
    to: &'a str,
    times: usize,
    detour: bool,
}

/// The arcs by their ends.
fn arcs(hops: &[PathHop]) -> Vec<Arc<'_>> {
    let mut arcs: BTreeMap<(&str, &str), (usize, bool)> = BTreeMap::new();
    for hop in hops {
        let arc = arcs.entry((&hop.from, &hop.to)).or_insert((0, hop.detour));
        arc.0 += 1;
    }
    let arc = |((from, to), (times, detour))| Arc {
        from,
        to,
        times,
        detour,
    };
    arcs.into_iter().map(arc).collect()
}

/// For each group's first run, if packets were traced in any.
pub(in crate::report) fn path(groups: &[Group]) -> Option<Figure> {
    let panels: Vec<Panel> = groups
        .iter()
        .filter_map(|group| {
            let path = group.runs[0].path.as_ref()?;
            let title = format!("{}: {}", super::of_first_run(group), said(path));
            let svg = drawn(path).into_string();
            Some(Panel { title, svg })
        })
        .collect();
    (!panels.is_empty()).then(|| Figure {
        id: "path".to_owned(),
        title: "Where a packet came by".to_owned(),
        caption: "The packet with the most hops among the traced packets to a host. An arc's width and the number beside \
                  it show how often the packet took it; dashed: a detour, which brought it no nearer. Point at an arc \
                  to see the order of its hops."
            .to_owned(),
        legend: Vec::new(),
        panels,
    })
}

/// The results of tracing packets.
fn said(path: &PacketPath) -> String {
    let time = path.hops.last().map_or(0, |hop| hop.after_ns) as f64 / 1e3;
    let mut text = format!(
        "{} hops to {}, {time:.1} µs from the first switch on; {} of {} packets took more hops than they had to",
        path.hops.len(),
        path.to,
        path.detoured,
        path.packets
    );
    if path.missed > 0 {
        text += &format!("; {} were not seen at some node", path.missed);
    }
    text
}

fn drawn(path: &PacketPath) -> Markup {
    let most = path.layers.iter().map(Vec::len).max().unwrap_or(0) as f64;
    let width = WIDTH.max(SHARE * most);
    let height = ROW * (path.layers.len().max(1) - 1) as f64 + HEIGHT;
    let mut at: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (row, nodes) in path.layers.iter().enumerate().skip(1) {
        let y = MARGIN + height - HEIGHT / 2.0 - ROW * row as f64;
        for (column, node) in nodes.iter().enumerate() {
            let x = MARGIN + width * (column as f64 + 0.5) / nodes.len() as f64;
            at.insert(node, (x, y));
        }
    }
    // Each end below its switch; if both have the same switch, side by side.
    let ends = path.hops.first().zip(path.hops.last());
    if let Some((first, last)) = ends {
        let y = MARGIN + height - HEIGHT / 2.0;
        let below = |switch: &str| at.get(switch).map_or(width / 2.0, |(x, _)| *x);
        let aside = if first.to == last.from {
            SHARE / 2.0
        } else {
            0.0
        };
        let (from, to) = (below(&first.to) + aside, below(&last.from) - aside);
        at.extend([
            (first.from.as_str(), (from, y)),
            (last.to.as_str(), (to, y)),
        ]);
    }
    let (all_width, all_height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {all_width:.0} {all_height:.0}"))
            font-family="sans-serif" font-size="11" text-anchor="middle" {
            g fill="none" stroke="currentColor" {
                @for arc in arcs(&path.hops) {
                    @if let (Some(&from), Some(&to)) = (at.get(arc.from), at.get(arc.to)) {
                        (line(&arc, from, to, &path.hops))
                    }
                }
            }
            @for (node, (x, y)) in &at {
                @let width = LETTER * (node.chars().count() + 2) as f64;
                @let is_end = path.hops.first().is_some_and(|hop| hop.from == *node) || path.to == *node;
                rect x=(px(x - width / 2.0)) y=(px(y - HEIGHT / 2.0)) width=(px(width)) height=(HEIGHT)
                    rx=(if is_end { HEIGHT / 2.0 } else { 2.0 })
                    fill=(if is_end { "#dceaf7" } else { "#f4e3c1" }) stroke="#555" {}
                text x=(px(*x)) y=(px(y + 4.0)) fill="#222" { (node) }
            }
        }
    }
}

/// An arc, with its head and the number of times that it was taken.
fn line(arc: &Arc<'_>, from: (f64, f64), to: (f64, f64), hops: &[PathHop]) -> Markup {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1.0);
    // Bent to the right in the direction of travel. The control point of a curve is twice as far
    // away as the curve.
    let bow = 2.0 * BOW.min(FARTHEST / length);
    let (x, y) = (
        (from.0 + to.0) / 2.0 - bow * dy,
        (from.1 + to.1) / 2.0 + bow * dx,
    );
    let middle = (
        (from.0 + to.0) / 4.0 + x / 2.0,
        (from.1 + to.1) / 4.0 + y / 2.0,
    );
    let width = (0.8 + 0.5 * arc.times as f64).min(WIDEST);
    let (along, size) = ((dx / length, dy / length), 5.0 + width);
    let beside = |forward: f64, aside: f64| {
        let x = middle.0 + size * (forward * along.0 - aside * along.1);
        let y = middle.1 + size * (forward * along.1 + aside * along.0);
        (x, y)
    };
    let head = [beside(1.0, 0.0), beside(-0.6, 0.7), beside(-0.6, -0.7)];
    let head = head.map(|(x, y)| format!("{x:.1},{y:.1}")).join(" ");
    let places = hops.iter().enumerate();
    let places = places.filter(|(_, hop)| hop.from == arc.from && hop.to == arc.to);
    let places: Vec<String> = places
        .map(|(place, hop)| format!("hop {} at {:.1} µs", place + 1, hop.after_ns as f64 / 1e3))
        .collect();
    let d = format!(
        "M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}",
        from.0, from.1, to.0, to.1
    );
    let (label_x, label_y) = beside(0.0, 1.7);
    html! {
        path d=(d) stroke-width=(px(width))
            stroke-dasharray=[arc.detour.then_some("6 4")] {
            title { (arc.from) " to " (arc.to) ": " (places.join(", ")) }
        }
        polygon points=(head) fill="currentColor" stroke="none" {}
        @if arc.times > 1 {
            text x=(px(label_x)) y=(px(label_y)) fill="currentColor" stroke="none" { (arc.times) }
        }
    }
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use weft_load::record::Recorded;

    use super::*;
    use crate::sample::sample;

    fn followed(names: &str) -> PacketPath {
        let names: Vec<&str> = names.split(' ').collect();
        let hops = names.windows(2).zip(1..).map(|(pair, place)| PathHop {
            after_ns: 1_000 * place,
            from: pair[0].to_owned(),
            to: pair[1].to_owned(),
            detour: pair == ["edge0", "agg1"],
        });
        PacketPath {
            to: "h0".to_owned(),
            packets: 840,
            detoured: 31,
            missed: 0,
            layers: [&["h0", "h1"][..], &["edge0"], &["agg0", "agg1"]]
                .map(|layer| layer.iter().map(|name| (*name).to_owned()).collect())
                .into(),
            hops: hops.collect(),
        }
    }

    fn group(path: Option<PacketPath>) -> Group {
        let sample = sample("dibs", 1, 10, 2.0);
        let run = Recorded {
            header: sample.header,
            flows: Vec::new(),
            ports: Vec::new(),
            path,
            summary: None,
        };
        Group::new("dibs".into(), vec![run])
    }

    #[test]
    fn each_direction_of_a_link_is_an_arc_with_a_count() {
        let path = followed("h1 edge0 agg1 edge0 agg1 edge0 h0");
        let arcs = arcs(&path.hops);
        let said: Vec<_> = arcs
            .iter()
            .map(|arc| (arc.from, arc.to, arc.times, arc.detour))
            .collect();
        let expected = [
            ("agg1", "edge0", 2, false),
            ("edge0", "agg1", 2, true),
            ("edge0", "h0", 1, false),
            ("h1", "edge0", 1, false),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn paths_are_drawn_only_if_packets_were_followed() {
        assert!(path(&[group(None)]).is_none());
        let followed = followed("h1 edge0 agg1 edge0 agg1 edge0 h0");
        let figure = path(&[group(None), group(Some(followed))]).unwrap();
        assert_eq!(figure.panels.len(), 1);
        let Panel { title, svg } = &figure.panels[0];
        assert!(title.contains("6 hops to h0, 6.0 µs"), "{title}");
        assert!(title.contains("31 of 840 packets"), "{title}");
        // Four arcs, one of them dashed; unused links are absent.
        assert_eq!(svg.matches("<path").count(), 4);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1);
        assert!(svg.contains("edge0 to agg1: hop 2 at 2.0 µs, hop 4 at 4.0 µs"));
        assert!(svg.contains(">2</text>"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), svg.matches("</rect>").count());
    }
}
