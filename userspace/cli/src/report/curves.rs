// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture with a line for each scheme, whose name stands at its right end. Colours, dashes and
//! markers are those of other figures; from the eighth line on they repeat, with hollow markers.

use maud::{Markup, PreEscaped, html};
use plotters::style::RGBColor;
use weft_lab::experiment::{Along, Curve, FilledCurves, Knot, Lines, PictureAxis, file_name};
use weft_lab::results::Estimate;

use super::Drawn;
use super::axis::{self, LETTER, LINE, Line, px, wrapped};
use super::palette::{GRID, INK, PAPER, SCALE, STYLES, Style, hex};
use super::words::{choice_of, listed, seeds, title_of};

/// A format of the picture.
struct Format {
    width: f64,
    /// The least height of the space for lines.
    height: f64,
    /// The height of letters.
    letters: f64,
    /// On a page, the picture has no title and no caption of its own.
    on_page: bool,
}

const WIDE: Format = Format {
    width: 720.0,
    height: 340.0,
    letters: 13.0,
    on_page: true,
};

/// For a page on a small screen.
const NARROW: Format = Format {
    width: 360.0,
    height: 320.0,
    letters: 12.0,
    ..WIDE
};

const ALONE: Format = Format {
    on_page: false,
    ..WIDE
};

/// Heights of the letters of the title, and of those below the picture, relative to the others.
const TITLE: f64 = 1.2;
const SMALL: f64 = 0.9;
/// Distance of two lines' names, relative to their letters.
const GAP: f64 = 1.2;
/// Space between the lines and their names, for what joins them.
const JOIN: f64 = 22.0;
/// Share of the horizontal axis before its first place; half of it follows the last one.
const EDGE: f64 = 0.08;
const MARKER: f64 = 3.8;
const STROKE: f64 = 1.8;
const CAPTION: &str = "Bars: 95 % confidence intervals.";

/// A length in the picture's coordinates, which are those of the plotting library's pictures:
/// dashes in the style sheet have their scale.
fn at(length: f64) -> String {
    px(length * SCALE)
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

/// Where everything is in the picture of one choice.
struct Layout<'a> {
    title: Vec<String>,
    of_x: Vec<String>,
    of_y: Vec<String>,
    title_height: f64,
    words_top: f64,
    below_top: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    y_line: Line,
    y_labels: Vec<(f64, String)>,
    /// The place of each value along the horizontal axis, and its name in lines.
    x_labels: Vec<(f64, Vec<String>)>,
    lines: Vec<Placed<'a>>,
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

impl<'a> Layout<'a> {
    /// `None` if there is nothing to show.
    fn new(curves: &FilledCurves, choice: &'a Lines, format: &Format) -> Option<Self> {
        let letters = format.letters;
        let per_line = |size: f64| ((format.width - 16.0) / (size * LETTER)) as usize;
        let all = || curves.choices.iter().flat_map(|it| &it.lines);
        let figures: Vec<Estimate> = all()
            .flat_map(|line| &line.points)
            .map(|point| point.figure)
            .collect();
        let most = curves.choices.iter().map(|it| it.lines.len()).max()?;
        let room = format.height.max(most as f64 * letters * GAP);
        let longest = all().map(|line| line.name.chars().count()).max()?;
        let right = format.width - 6.0 - JOIN - longest as f64 * letters * LETTER;

        let y_line = Line::new(&curves.y, &figures, (room, 0.0))?;
        let of_y = wrapped(
            &axis::words(&curves.y, &y_line, ["↓", "↑"]),
            per_line(letters),
        );
        let title_letters = letters * TITLE;
        let title = match format.on_page {
            true => Vec::new(),
            false => wrapped(
                &title_of(
                    &curves.title,
                    curves.choose.as_deref(),
                    choice.value.as_deref(),
                ),
                per_line(title_letters),
            ),
        };
        let title_height = title.len() as f64 * title_letters * LINE;
        let top = 6.0 + title_height + of_y.len() as f64 * letters * LINE + 6.0;
        let bottom = top + room;
        let y_line = Line {
            begin: bottom,
            end: top,
            ..y_line
        };
        let y_labels = y_line.labels(|_| letters * 1.2);
        let widest = y_labels.iter().map(|(_, name)| name.chars().count()).max();
        let left = 18.0 + widest.unwrap_or(0) as f64 * letters * LETTER;
        let places = places(curves, (left, right));
        let x_labels = x_labels(&curves.along, &places, (right - left) / letters / LETTER);
        let label_lines = x_labels.iter().map(|(_, name)| name.len()).max();
        let words_top = bottom + 8.0 + label_lines.unwrap_or(1) as f64 * letters * LINE;
        let of_x = match curves.x_label.as_str() {
            "" => Vec::new(),
            label => wrapped(label, per_line(letters)),
        };
        let below_top = words_top + of_x.len() as f64 * letters * LINE + 4.0;
        let height = match format.on_page {
            true => below_top,
            false => below_top + letters * SMALL * LINE + 6.0,
        };
        let lines = choice.lines.iter().map(|line| {
            let point = |knot: &Knot| (places[knot.along], y_line.at(knot.figure.value));
            (line, line.points.iter().map(point).collect::<Vec<_>>())
        });
        let lines: Vec<_> = lines.collect();
        let end = |points: &[(f64, f64)]| points.last().map_or(bottom, |it| it.1);
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by(|&a, &b| end(&lines[a].1).total_cmp(&end(&lines[b].1)));
        let wanted: Vec<f64> = order.iter().map(|&it| end(&lines[it].1)).collect();
        let ends = (top + letters / 2.0, bottom - letters / 2.0);
        let mut names = vec![0.0; lines.len()];
        for (&line, place) in order.iter().zip(spread(&wanted, letters * GAP, ends)) {
            names[line] = place;
        }
        let lines = lines.into_iter().zip(names);
        let lines = lines.map(|((line, points), name)| Placed { line, points, name });
        Some(Self {
            title,
            of_x,
            of_y,
            title_height,
            words_top,
            below_top,
            height,
            left,
            right,
            top,
            bottom,
            y_line,
            y_labels,
            x_labels,
            lines: lines.collect(),
        })
    }
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
fn bar(layout: &Layout<'_>, figure: &Estimate, x: f64, colour: &str) -> Markup {
    let Some((low, high)) = figure.low.zip(figure.high).filter(|(low, high)| low < high) else {
        return PreEscaped(String::new());
    };
    let (from, to) = (layout.y_line.at(high), layout.y_line.at(low));
    html! {
        rect x=(at(x - 0.5)) y=(at(from)) width=(at(1.0)) height=(at(to - from)) fill=(colour) opacity="0.7" {}
    }
}

/// Draws a picture of one choice. `count` is the number of the judgement's runs.
fn svg(curves: &FilledCurves, choice: &Lines, count: usize, format: &Format) -> Option<Markup> {
    let layout = Layout::new(curves, choice, format)?;
    let letters = format.letters;
    let Layout {
        left,
        right,
        top,
        bottom,
        ..
    } = layout;
    let (ink, grid, paper) = (hex(INK), hex(GRID), PAPER);
    let text = |lines: &[String], top: f64, letters: f64| {
        html! {
            @for (number, line) in lines.iter().enumerate() {
                text x=(at(8.0)) y=(at(top + (number as f64 + 0.8) * letters * LINE)) font-size=(at(letters)) fill=(ink) { (line) }
            }
        }
    };
    let segment = |(x, y): (f64, f64), (to_x, to_y): (f64, f64), colour: &str, width: f64| {
        html! {
            line x1=(at(x)) y1=(at(y)) x2=(at(to_x)) y2=(at(to_y)) stroke=(colour) stroke-width=(at(width)) {}
        }
    };
    let polyline = |points: &[(f64, f64)], style: &Style| {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{},{}", at(*x), at(*y)))
            .collect();
        let dashes: Vec<String> = style.dashes.iter().map(|it| at(*it)).collect();
        let dashes = (!dashes.is_empty()).then(|| dashes.join(" "));
        html! {
            polyline points=(points.join(" ")) fill="none" stroke=(hex(style.colour)) stroke-width=(at(STROKE))
                stroke-dasharray=[dashes] {}
        }
    };
    let title = title_of(
        &curves.title,
        curves.choose.as_deref(),
        choice.value.as_deref(),
    );
    let size = [format.width, layout.height];
    Some(html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(px(size[0])) height=(px(size[1]))
            viewBox={ "0 0 " (at(size[0])) " " (at(size[1])) } font-family="system-ui, sans-serif" role="img" aria-label=(title) {
            @if !format.on_page {
                rect width=(at(size[0])) height=(at(size[1])) fill=(paper) {}
                (text(&layout.title, 6.0, letters * TITLE))
                (text(&[CAPTION.to_owned()], layout.below_top, letters * SMALL))
            }
            (text(&layout.of_y, 6.0 + layout.title_height, letters))
            (text(&layout.of_x, layout.words_top, letters))
            @for (y, name) in &layout.y_labels {
                (segment((left, *y), (right, *y), &grid, 1.0))
                text x=(at(left - 6.0)) y=(at(y + letters * 0.35)) font-size=(at(letters)) text-anchor="end" fill=(ink) { (name) }
            }
            @for (x, name) in &layout.x_labels {
                (segment((*x, bottom), (*x, bottom + 4.0), &ink, 1.0))
                @for (number, line) in name.iter().enumerate() {
                    text x=(at(*x)) y=(at(bottom + 6.0 + (number as f64 + 0.8) * letters * LINE)) font-size=(at(letters))
                        text-anchor="middle" fill=(ink) { (line) }
                }
            }
            (segment((left, top), (left, bottom), &ink, 1.0))
            (segment((left, bottom), (right, bottom), &ink, 1.0))
            @for (place, Placed { line, points, .. }) in layout.lines.iter().enumerate() {
                @let colour = hex(style(place).0.colour);
                @for (knot, (x, _)) in line.points.iter().zip(points) { (bar(&layout, &knot.figure, *x, &colour)) }
                (polyline(points, style(place).0))
            }
            @for (place, Placed { line, points, name }) in layout.lines.iter().enumerate() {
                @let (style, is_hollow) = style(place);
                @let colour = hex(style.colour);
                @for (knot, &at) in line.points.iter().zip(points) {
                    (point(curves, line, knot, count, &html! {
                        (marker(style, at, MARKER, &colour))
                        @if is_hollow { (marker(style, at, MARKER * 0.5, paper)) }
                    }))
                }
                @if let Some(&end) = points.last() {
                    (segment((end.0 + MARKER + 2.0, end.1), (right + JOIN - 4.0, *name), &faint(style.colour), 1.0))
                }
                text x=(at(right + JOIN)) y=(at(name + letters * 0.35)) font-size=(at(letters)) fill=(ink) { (line.name) }
            }
        }
    })
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
    let (place, label) = match curves.x_label.as_str() {
        "" => (along.clone(), curves.y.label.as_str()),
        x => (format!("{x} {along}"), curves.y.label.as_str()),
    };
    let axis = PictureAxis {
        label: label.to_owned(),
        ..curves.y.clone()
    };
    html! {
        g .point data-runs=[listed(&runs)] {
            title { (line.name) ", " (place) "\n" (axis::figure(&axis, knot.figure))
                @if let Some(seeds) = seeds(runs.len()) { "\n" (seeds) } }
            (drawn)
        }
    }
}

/// The standalone pictures of all choices.
pub(crate) fn pictures(curves: &FilledCurves, count: usize) -> Vec<Drawn> {
    let choices = curves.choices.iter().filter_map(|choice| {
        let value = choice.value.iter().map(|value| file_name(value));
        let name: Vec<String> = std::iter::once(curves.name.clone()).chain(value).collect();
        let svg = svg(curves, choice, count, &ALONE)?.into_string();
        // One element a line.
        Some(Drawn {
            name: name.join("-"),
            title: title_of(
                &curves.title,
                curves.choose.as_deref(),
                choice.value.as_deref(),
            ),
            svg: svg.replace("><", ">\n<") + "\n",
        })
    });
    choices.collect()
}

/// The picture on a page.
pub(super) fn on_page(curves: &FilledCurves, count: usize) -> Markup {
    html! {
        figure .drawn .curves id={ "picture-" (curves.name) } {
            h2 { (curves.title) }
            @for choice in &curves.choices {
                @let name = choice_of(curves.choose.as_deref(), choice.value.as_deref());
                div .choice data-name=[choice.value.as_ref().map(|_| name.clone())] {
                    @if choice.value.is_some() { h3 { (name) } }
                    @for (class, format) in [("wide", &WIDE), ("narrow", &NARROW)] {
                        div class=(class) { (svg(curves, choice, count, format).unwrap_or(PreEscaped(String::new()))) }
                    }
                    figcaption { (CAPTION) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weft_lab::experiment::Places;

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

    /// Nine lines, of which five end within 2 %.
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
            lines: "scheme".to_owned(),
            choose: None,
            choices: vec![Lines { value: None, lines }],
        }
    }

    /// To accept a change, run with `WEFT_BLESS=1` and look at the picture.
    #[test]
    fn a_picture_is_the_golden_one() {
        let [Drawn { name, svg, .. }] = &pictures(&sample(), 0)[..] else {
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
        let layout = Layout::new(&sample, &sample.choices[0], &WIDE).unwrap();
        let mut names: Vec<f64> = layout.lines.iter().map(|it| it.name).collect();
        names.sort_by(f64::total_cmp);
        for two in names.windows(2) {
            assert!(two[1] - two[0] > WIDE.letters * GAP - 1e-6, "{names:?}");
        }
        assert!(names[0] > layout.top && *names.last().unwrap() < layout.bottom);
        // Five names share the place of one.
        let far = layout
            .lines
            .iter()
            .map(|it| (it.points.last().unwrap().1 - it.name).abs());
        assert!(far.fold(0.0, f64::max) < 3.0 * WIDE.letters * GAP);
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
        let page = on_page(&sample, 0).into_string();
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
        let svg = pictures(&sample(), 0)[0].svg.clone();
        let hollow = format!("fill=\"{PAPER}\"");
        // The background, and three points each of the two last lines.
        assert_eq!(svg.matches(&hollow).count(), 1 + 6);
    }
}
