// SPDX-License-Identifier: MIT OR Apache-2.0

//! The style of a scheme, which is the same in every figure. Colour, dashes and markers distinguish
//! schemes, so that readers without colour vision, or of a printed page, can do so too.
//!
//! The plotting library supports only colours. A page's style sheet, which [`css`] writes, selects
//! lines by their colour, dashes them, and makes them bright on a dark page.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// Scale from lengths on the page to lengths in a plot: the library's coordinates are whole
/// numbers.
pub(super) const SCALE: f64 = 8.0;

/// The style of a scheme.
pub(super) struct Style {
    /// Okabe and Ito's colours, which are distinct for people with any colour vision.
    pub(super) colour: RGBColor,
    /// The colour on a dark page.
    dark: &'static str,
    /// Lengths of dashes and gaps on the page; none: a solid line.
    pub(super) dashes: &'static [f64],
    /// Corners of its marker, around 0, in units of its size.
    pub(super) marker: &'static [(f64, f64)],
}

const CIRCLE: [(f64, f64); 16] = [
    (1.0, 0.0),
    (0.924, 0.383),
    (0.707, 0.707),
    (0.383, 0.924),
    (0.0, 1.0),
    (-0.383, 0.924),
    (-0.707, 0.707),
    (-0.924, 0.383),
    (-1.0, 0.0),
    (-0.924, -0.383),
    (-0.707, -0.707),
    (-0.383, -0.924),
    (0.0, -1.0),
    (0.383, -0.924),
    (0.707, -0.707),
    (0.924, -0.383),
];
const SQUARE: [(f64, f64); 4] = [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)];
const DIAMOND: [(f64, f64); 4] = [(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)];
const UP: [(f64, f64); 3] = [(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)];
const DOWN: [(f64, f64); 3] = [(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)];
const PLUS: [(f64, f64); 12] = [
    (-0.35, -1.2),
    (0.35, -1.2),
    (0.35, -0.35),
    (1.2, -0.35),
    (1.2, 0.35),
    (0.35, 0.35),
    (0.35, 1.2),
    (-0.35, 1.2),
    (-0.35, 0.35),
    (-1.2, 0.35),
    (-1.2, -0.35),
    (-0.35, -0.35),
];
const HOURGLASS: [(f64, f64); 4] = [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)];

/// In the order of the columns.
pub(super) const STYLES: [Style; 7] = [
    Style {
        colour: RGBColor(0, 114, 178),
        dark: "#4da3e0",
        dashes: &[],
        marker: &CIRCLE,
    },
    Style {
        colour: RGBColor(213, 94, 0),
        dark: "#f58742",
        dashes: &[7.0, 3.0],
        marker: &SQUARE,
    },
    Style {
        colour: RGBColor(0, 158, 115),
        dark: "#2ec79a",
        dashes: &[2.0, 2.5],
        marker: &UP,
    },
    Style {
        colour: RGBColor(204, 121, 167),
        dark: "#e8a3cb",
        dashes: &[9.0, 3.0, 2.0, 3.0],
        marker: &DIAMOND,
    },
    Style {
        colour: RGBColor(230, 159, 0),
        dark: "#f5bd3d",
        dashes: &[4.0, 2.0],
        marker: &DOWN,
    },
    Style {
        colour: RGBColor(86, 180, 233),
        dark: "#a3d9fb",
        dashes: &[9.0, 3.0, 2.0, 3.0, 2.0, 3.0],
        marker: &PLUS,
    },
    Style {
        colour: RGBColor(0, 0, 0),
        dark: "#ffffff",
        dashes: &[1.5, 4.0],
        marker: &HOURGLASS,
    },
];

/// Axes and text: not black, which is a scheme's colour.
pub(super) const INK: RGBColor = RGBColor(51, 51, 51);
/// Lines that help to read values.
pub(super) const GRID: RGBColor = RGBColor(221, 221, 221);

/// Background: a page replaces it by its own.
pub(super) const PAPER: &str = "#FFFFFF";

/// A colour in the plotting library's notation.
pub(super) fn hex(colour: RGBColor) -> String {
    let RGBColor(red, green, blue) = colour;
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The rules that dash lines, and make them bright on a dark page.
pub(super) fn css() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for style in &STYLES {
        let colour = hex(style.colour);
        if !style.dashes.is_empty() {
            let lengths = style.dashes.iter().map(|length| length * SCALE);
            let lengths: Vec<String> = lengths.map(|it| it.to_string()).collect();
            let _ = writeln!(
                light,
                "svg [stroke=\"{colour}\"] {{ stroke-dasharray: {}; }}",
                lengths.join(" ")
            );
        }
        let new = style.dark;
        let _ = writeln!(dark, "svg [stroke=\"{colour}\"] {{ stroke: {new}; }}");
        let _ = writeln!(dark, "svg [fill=\"{colour}\"] {{ fill: {new}; }}");
    }
    for (colour, variable) in [(INK, "--ink"), (GRID, "--grid")] {
        let colour = hex(colour);
        for what in ["stroke", "fill"] {
            let _ = writeln!(
                light,
                "svg [{what}=\"{colour}\"] {{ {what}: var({variable}); }}"
            );
        }
    }
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}
