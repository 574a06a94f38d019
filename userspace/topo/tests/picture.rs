// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures of topologies show all nodes and links.

use weft_topo::{Spec, Topology};

fn topology(text: &str) -> Topology {
    text.parse::<Spec>().unwrap().topology()
}

const ALL: [&str; 7] = [
    "rack:hosts=2",
    "rack:hosts=200",
    "fat-tree:k=4",
    "fat-tree:k=8",
    "leaf-spine:leaves=9,spines=4,hosts=16",
    "dumbbell:left=2,right=3",
    "bfc-testbed",
];

#[test]
fn graphviz_parses_a_graph() {
    let expected = "graph \"rack:hosts=2,rate=10gbit,delay=200ns\" {
  rankdir=BT; node [shape=box, height=0.2, margin=0.05];
  { rank=same; // host
    \"h0\" [shape=oval]; \"h1\" [shape=oval];
  }
  { rank=same; // tor
    \"tor0\";
  }
  \"h0\" -- \"tor0\" [tooltip=\"10gbit 200ns\"];
  \"h1\" -- \"tor0\" [tooltip=\"10gbit 200ns\"];
}
";
    let rack = topology("rack:hosts=2,rate=10gbit,delay=200ns");
    let title = format!("\"{}\"", rack.title());
    let expected = expected.replace("\"rack:hosts=2,rate=10gbit,delay=200ns\"", &title);
    assert_eq!(rack.dot(), expected);
    for text in ALL {
        let topology = topology(text);
        let dot = topology.dot();
        assert_eq!(
            dot.matches(" -- ").count(),
            topology.links().len(),
            "{text}"
        );
        for node in topology.nodes() {
            assert!(dot.contains(&format!(" \"{}\"", node.name)), "{text}");
        }
    }
}

/// The numbers of an attribute.
fn numbers(svg: &str, name: &str) -> Vec<f64> {
    let before = format!(" {name}=\"");
    let pieces = svg.split(&before).skip(1);
    let number = |piece: &str| piece.split('"').next().unwrap().parse().unwrap();
    pieces.map(number).collect()
}

#[test]
fn a_drawing_has_each_node_and_link_within_its_frame() {
    for text in ALL {
        let topology = topology(text);
        let svg = topology.svg();
        assert_eq!(
            svg.matches("<path ").count(),
            topology.links().len(),
            "{text}"
        );
        assert_eq!(
            svg.matches("<rect ").count(),
            topology.nodes().len(),
            "{text}"
        );
        for node in topology.nodes() {
            let title = format!("<title>{} ({}) ", node.name, node.layer);
            assert!(svg.contains(&title), "{text}: {title}");
        }
        for tag in ["svg", "g", "title", "text", "path"] {
            let opened =
                svg.matches(&format!("<{tag}>")).count() + svg.matches(&format!("<{tag} ")).count();
            assert_eq!(
                opened,
                svg.matches(&format!("</{tag}>")).count(),
                "{text}: {tag}"
            );
        }
        // The first width and height are those of the picture.
        let (widths, heights) = (numbers(&svg, "width"), numbers(&svg, "height"));
        let (xs, ys) = (numbers(&svg, "x"), numbers(&svg, "y"));
        assert!(widths[0] <= 1220.0 && heights[0] <= 400.0, "{text}");
        assert!(xs.iter().all(|&x| (0.0..widths[0]).contains(&x)), "{text}");
        assert!(ys.iter().all(|&y| (0.0..heights[0]).contains(&y)), "{text}");
    }
}

#[test]
fn a_drawing_has_names_if_they_fit() {
    assert!(topology("fat-tree:k=4").svg().contains(">core0</text>"));
    assert!(!topology("rack:hosts=200").svg().contains(">h7</text>"));
}
