// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture with a line for each scheme, whose name stands at its right end. The first seven lines
//! have the styles of other figures. Further lines repeat these styles, with hollow markers.

use maud::{Markup, html};
use plotters::style::RGBColor;
use weft_lab::experiment::{Along, Curve, FilledCurves, Knot, Lines};
use weft_lab::results::Estimate;

use super::axis::{LETTER, LINE, Line, figure, wrapped};
use super::frame::{Format, Frame, Pen, Picture};
use super::palette::{GRID, INK, PAPER, SCALE, STYLES, Style, hex};
use super::words::{listed, seeds};

/// Distance of two lines' names, relative to their letters.
const GAP: f64 = 1.2;
/// Space between the lines and their names, for what joins them.
const JOIN: f64 = 22.0;
/// Share of the horizontal axis before its first place; half of it follows the last one.
const EDGE: f64 = 0.08;
const MARKER: f64 = 3.8;
const STROKE: f64 = 1.8;

/// The coordinates are those of the plotting library's pictures, because the style sheet's dashes
/// have their scale.
const PEN: Pen = Pen { scale: SCALE };

fn at(length: f64) -> String {
    PEN.at(length)
}

/// Places at least `gap` apart and within the ends, close to the wanted ones, which ascend.
fn spread(wanted: &[f64], gap: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    // Without their distances the places must not descend: neighbours that do share their mean.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (place, wanted) in wanted.iter().enumerate() {
        blocks.push((wanted - gap * place as f64, 1));
        while let [.., (before, of_before), (last, of_last)] = blocks[..]
            && before > last
        {
            let count = of_before + of_last;
            let sum = before * of_before as f64 + last * of_last as f64;
            blocks.truncate(blocks.len() - 2);
            blocks.push((sum / count as f64, count));
        }
    }
    let most = bottom - gap * wanted.len().saturating_sub(1) as f64;
    let flat = blocks
        .iter()
        .flat_map(|&(at, count)| std::iter::repeat_n(at.min(most).max(top), count));
    let places = flat.enumerate().map(|(place, at)| at + gap * place as f64);
    places.collect()
}

/// A line in its place.
struct Placed<'a> {
    line: &'a Curve,
    points: Vec<(f64, f64)>,
    /// The height of its name.
    name: f64,
}

/// The places along the horizontal axis, which begins a little before the first one.
fn places(curves: &FilledCurves, (left, right): (f64, f64)) -> Vec<f64> {
    let along = curves.along.iter().enumerate();
    let numbers: Vec<f64> = along
        .map(|(place, it)| it.number.unwrap_or(place as f64))
        .collect();
    let is_log = curves.x_log && numbers.iter().all(|number| *number > 0.0);
    let length = |number: &f64| if is_log { number.ln() } else { *number };
    let lengths: Vec<f64> = numbers.iter().map(length).collect();
    let least = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let most = lengths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let share = |length: f64| match most > least {
        true => EDGE + (1.0 - 1.5 * EDGE) * (length - least) / (most - least),
        false => 0.5,
    };
    let place = |length| left + share(length) * (right - left);
    lengths.into_iter().map(place).collect()
}

/// The vertical axis, which all choices share. `None` if there are no figures.
fn frame(curves: &FilledCurves, choice: &Lines, format: Format) -> Option<Frame> {
    let points = curves.choices.iter().flat_map(|it| &it.lines);
    let points = points.flat_map(|line| &line.points);
    let figures: Vec<Estimate> = points.map(|point| point.figure).collect();
    let most = curves.choices.iter().map(|it| it.lines.len()).max()?;
    let least = format.either(340.0, 320.0);
    let room = least.max(most as f64 * format.letters() * GAP);
    Frame::new(format, curves.title_of(choice), (&curves.y, &figures), room)
}

/// The lines of a choice, with their names at the right, as near to their ends as there is room.
fn placed<'a>(choice: &'a Lines, frame: &Frame, places: &[f64]) -> Vec<Placed<'a>> {
    let lines = choice.lines.iter().map(|line| {
        let point = |knot: &Knot| (places[knot.along], frame.y_line.at(knot.figure.value));
        let points: Vec<(f64, f64)> = line.points.iter().map(point).collect();
        let name = points.last().map_or(frame.bottom, |it| it.1);
        Placed { line, points, name }
    });
    let mut lines: Vec<Placed<'_>> = lines.collect();
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|&a, &b| lines[a].name.total_cmp(&lines[b].name));
    let wanted: Vec<f64> = order.iter().map(|&it| lines[it].name).collect();
    let letters = frame.format.letters();
    let ends = (frame.top + letters / 2.0, frame.bottom - letters / 2.0);
    for (line, name) in order.into_iter().zip(spread(&wanted, letters * GAP, ends)) {
        lines[line].name = name;
    }
    lines
}

/// The names of the places, in lines, if there is room for them. `letters`: as many as all of them
/// have room for in a line.
fn x_labels(along: &[Along], places: &[f64], letters: f64) -> Vec<(f64, Vec<String>)> {
    let each = (letters / along.len() as f64) as usize;
    let is_number = along.iter().all(|it| it.number.is_some());
    let labels = along.iter().zip(places).map(|(it, &at)| {
        let lines = match is_number {
            true => vec![it.name.clone()],
            false => {
                // Not between a number and its unit.
                let name = ["kB", "MB", "GB"]
                    .iter()
                    .fold(it.name.clone(), |name, unit| {
                        name.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"))
                    });
                wrapped(&name, each.saturating_sub(1).max(1))
            }
        };
        (at, lines)
    });
    labels.collect()
}

/// A line's style, and whether its markers are hollow.
fn style(place: usize) -> (&'static Style, bool) {
    (&STYLES[place % STYLES.len()], place >= STYLES.len())
}

fn marker(style: &Style, (x, y): (f64, f64), size: f64, colour: &str) -> Markup {
    let corner = |(dx, dy): &(f64, f64)| format!("{},{}", at(x + dx * size), at(y + dy * size));
    let corners: Vec<String> = style.marker.iter().map(corner).collect();
    html! { polygon points=(corners.join(" ")) fill=(colour) {} }
}

/// A point's interval, as a thin area: lines of a scheme's colour are dashed.
fn bar(y_line: &Line, figure: &Estimate, x: f64, colour: &str) -> Markup {
    let ends = figure.low.zip(figure.high).filter(|(low, high)| low < high);
    let ends = ends.map(|(low, high)| (y_line.at(high), y_line.at(low)));
    html! {
        @if let Some((from, to)) = ends {
            rect x=(at(x - 0.5)) y=(at(from)) width=(at(1.0)) height=(at(to - from)) fill=(colour) opacity="0.7" {}
        }
    }
}

fn segment((x, y): (f64, f64), (to_x, to_y): (f64, f64), colour: &str) -> Markup {
    html! {
        line x1=(at(x)) y1=(at(y)) x2=(at(to_x)) y2=(at(to_y)) stroke=(colour) stroke-width=(at(1.0)) {}
    }
}

fn polyline(points: &[(f64, f64)], style: &Style) -> Markup {
    let point = |(x, y): &(f64, f64)| format!("{},{}", at(*x), at(*y));
    let points: Vec<String> = points.iter().map(point).collect();
    let dashes: Vec<String> = style.dashes.iter().map(|it| at(*it)).collect();
    let dashes = (!dashes.is_empty()).then(|| dashes.join(" "));
    html! {
        polyline points=(points.join(" ")) fill="none" stroke=(hex(style.colour)) stroke-width=(at(STROKE))
            stroke-dasharray=[dashes] {}
    }
}

/// Draws the axes. `x_labels`: places along the horizontal one, and their names in lines.
fn axes(frame: &Frame, right: f64, x_labels: &[(f64, Vec<String>)]) -> Markup {
    let letters = frame.format.letters();
    let (left, top, bottom) = (frame.left, frame.top, frame.bottom);
    let (ink, grid) = (hex(INK), hex(GRID));
    html! {
        @for (y, name) in &frame.y_labels {
            (segment((left, *y), (right, *y), &grid))
            text x=(at(left - 6.0)) y=(at(y + letters * 0.35)) font-size=(at(letters)) text-anchor="end" fill=(ink) { (name) }
        }
        @for (x, name) in x_labels {
            (segment((*x, bottom), (*x, bottom + 4.0), &ink))
            @for (number, line) in name.iter().enumerate() {
                text x=(at(*x)) y=(at(bottom + 6.0 + (number as f64 + 0.8) * letters * LINE)) font-size=(at(letters))
                    text-anchor="middle" fill=(ink) { (line) }
            }
        }
        (segment((left, top), (left, bottom), &ink))
        (segment((left, bottom), (right, bottom), &ink))
    }
}

/// Draws the lines below all points, and their names from `right` on.
fn lines(
    curves: &FilledCurves,
    lines: &[Placed<'_>],
    count: usize,
    frame: &Frame,
    right: f64,
) -> Markup {
    let letters = frame.format.letters();
    html! {
        @for (place, Placed { line, points, .. }) in lines.iter().enumerate() {
            @let colour = hex(style(place).0.colour);
            @for (knot, (x, _)) in line.points.iter().zip(points) { (bar(&frame.y_line, &knot.figure, *x, &colour)) }
            (polyline(points, style(place).0))
        }
        @for (place, Placed { line, points, name }) in lines.iter().enumerate() {
            @let (style, is_hollow) = style(place);
            @let colour = hex(style.colour);
            @for (knot, &at) in line.points.iter().zip(points) {
                (point(curves, line, knot, count, &html! {
                    (marker(style, at, MARKER, &colour))
                    @if is_hollow { (marker(style, at, MARKER * 0.5, PAPER)) }
                }))
            }
            @if let Some(&end) = points.last() {
                (segment((end.0 + MARKER + 2.0, end.1), (right + JOIN - 4.0, *name), &faint(style.colour)))
            }
            text x=(at(right + JOIN)) y=(at(name + letters * 0.35)) font-size=(at(letters)) fill=(hex(INK)) { (line.name) }
        }
    }
}

/// A colour for what joins a line to its name: no style's, whose lines are dashed.
fn faint(RGBColor(red, green, blue): RGBColor) -> String {
    let half = |part: u8| part / 2 + 110;
    hex(RGBColor(half(red), half(green), half(blue)))
}

/// A point with its figure in words and its runs.
fn point(curves: &FilledCurves, line: &Curve, knot: &Knot, count: usize, drawn: &Markup) -> Markup {
    let runs = knot.rests_on.below(count);
    let along = &curves.along[knot.along].name;
    html! {
        g .point data-runs=[listed(&runs)] {
            title { (line.name) ", " @if !curves.x_label.is_empty() { (curves.x_label) " " } (along)
                "\n" (figure(&curves.y, knot.figure))
                @if let Some(seeds) = seeds(runs.len()) { "\n" (seeds) } }
            (drawn)
        }
    }
}

impl Picture for FilledCurves {
    type Choice = Lines;
    const CLASS: &'static str = "curves";

    fn names(&self) -> (&str, &str, Option<&str>) {
        (&self.name, &self.title, self.choose.as_deref())
    }

    fn choices(&self) -> &[Lines] {
        &self.choices
    }

    fn value(choice: &Lines) -> Option<&str> {
        choice.value.as_deref()
    }

    fn caption(&self, _: &Lines) -> String {
        "Bars: 95 % confidence intervals.".to_owned()
    }

    fn svg(&self, choice: &Lines, count: usize, format: Format) -> Option<Markup> {
        let letters = format.letters();
        let frame = frame(self, choice, format)?;
        let all = self.choices.iter().flat_map(|it| &it.lines);
        let longest = all.map(|line| line.name.chars().count()).max()?;
        let right = format.width() - 6.0 - JOIN - longest as f64 * letters * LETTER;
        let places = places(self, (frame.left, right));
        let x_labels = x_labels(
            &self.along,
            &places,
            (right - frame.left) / letters / LETTER,
        );
        let label_lines = x_labels.iter().map(|(_, name)| name.len()).max();
        let words_top = frame.bottom + 8.0 + label_lines.unwrap_or(1) as f64 * letters * LINE;
        let of_x = match self.x_label.as_str() {
            "" => Vec::new(),
            label => format.wrapped(label, 1.0),
        };
        let drawn = html! {
            (axes(&frame, right, &x_labels))
            (lines(self, &placed(choice, &frame, &places), count, &frame, right))
        };
        Some(frame.svg(PEN, (&of_x, words_top), &self.caption(choice), &drawn))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weft_lab::experiment::{PictureAxis, Places};

    use super::super::Drawn;
    use super::*;

    fn line(name: &str, values: &[f64]) -> Curve {
        let knot = |(along, &value): (usize, &f64)| Knot {
            along,
            figure: Estimate {
                low: Some(value * 0.9),
                high: Some(value * 1.2),
                ..Estimate::alone(value)
            },
            rests_on: Places::default(),
        };
        Curve {
            name: name.to_owned(),
            points: values.iter().enumerate().map(knot).collect(),
        }
    }

    /// Nine lines; five of them end within 2 % of each other.
    fn sample() -> FilledCurves {
        let mut lines: Vec<Curve> = (0..5)
            .map(|n| {
                let near = 1.0 + 0.004 * f64::from(n);
                line(
                    &format!("similar-{n}"),
                    &[1.5 * near, 2.5 * near, 5.0 * near],
                )
            })
            .collect();
        lines.push(line("a<b", &[1.0, 1.1, 1.2]));
        lines.push(line("short", &[2.0, 9.0]));
        lines.push(line("eighth", &[3.0, 4.0, 6.0]));
        lines.push(line("a-long-name †", &[3.5, 5.0, 40.0]));
        FilledCurves {
            name: "load".to_owned(),
            title: "Slowdown against load".to_owned(),
            x_label: "Load".to_owned(),
            x_log: false,
            along: [("0.2", 0.2), ("0.4", 0.4), ("0.8", 0.8)]
                .map(|(name, number)| Along {
                    name: name.to_owned(),
                    number: Some(number),
                })
                .to_vec(),
            y: PictureAxis {
                label: "Slowdown".to_owned(),
                unit: "",
                log: true,
                higher_is_better: false,
            },
            choose: None,
            choices: vec![Lines { value: None, lines }],
        }
    }

    /// To accept a change, run with `WEFT_BLESS=1` and look at the picture.
    #[test]
    fn a_picture_is_the_golden_one() {
        let [Drawn { name, svg, .. }] = &sample().alone(0)[..] else {
            panic!("one picture");
        };
        assert_eq!(name, "load");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/curves.svg");
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(&path, svg).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(*svg, expected, "{}", path.display());
    }

    #[test]
    fn names_are_apart_and_near_their_lines() {
        let sample = sample();
        let choice = &sample.choices[0];
        let frame = frame(&sample, choice, Format::Wide).unwrap();
        let lines = placed(choice, &frame, &places(&sample, (frame.left, 600.0)));
        let gap = Format::Wide.letters() * GAP;
        let mut names: Vec<f64> = lines.iter().map(|it| it.name).collect();
        names.sort_by(f64::total_cmp);
        for two in names.windows(2) {
            assert!(two[1] - two[0] > gap - 1e-6, "{names:?}");
        }
        assert!(names[0] > frame.top && *names.last().unwrap() < frame.bottom);
        // Five names share the place of one.
        let far = lines
            .iter()
            .map(|it| (it.points.last().unwrap().1 - it.name).abs());
        assert!(far.fold(0.0, f64::max) < 3.0 * gap);
    }

    #[test]
    fn wanted_places_that_are_too_near_share_their_mean() {
        let spread = |wanted: &[f64]| spread(wanted, 10.0, (0.0, 100.0));
        assert_eq!(spread(&[5.0, 50.0, 95.0]), [5.0, 50.0, 95.0]);
        assert_eq!(spread(&[50.0, 50.0, 50.0]), [40.0, 50.0, 60.0]);
        assert_eq!(
            spread(&[20.0, 50.0, 54.0, 54.0]),
            [
                20.0,
                42.666666666666664,
                52.666666666666664,
                62.666666666666664
            ]
        );
        // The ends hold.
        assert_eq!(spread(&[0.0, 1.0]), [0.0, 10.0]);
        assert_eq!(spread(&[99.0, 100.0]), [90.0, 100.0]);
        assert_eq!(spread(&[]), [0.0; 0]);
    }

    #[test]
    fn a_measure_along_the_axis_is_named_in_lines() {
        let mut sample = sample();
        sample.x_label.clear();
        sample.along.iter_mut().for_each(|it| {
            it.name = "from 10 kB up to 100 kB".to_owned();
            it.number = None;
        });
        let page = sample.on_page(0, "").into_string();
        for part in [
            ">from 10\u{a0}kB up to 100\u{a0}kB</text>",
            // On a small screen.
            ">10\u{a0}kB up</text>",
            "<title>similar-0, from 10 kB up to 100 kB\nSlowdown: 1.50",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let places = places(&sample, (0.0, 100.0));
        assert_eq!(
            places.iter().map(|it| it.round()).collect::<Vec<_>>(),
            [8.0, 52.0, 96.0]
        );
    }

    #[test]
    fn from_the_eighth_line_on_markers_are_hollow() {
        let svg = sample().alone(0)[0].svg.clone();
        let hollow = format!("fill=\"{PAPER}\"");
        // The background, and three points each of the two last lines.
        assert_eq!(svg.matches(&hollow).count(), 1 + 6);
    }
}
