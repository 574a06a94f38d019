// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture of one measure against another: a point per scheme, with its name and a cross over its
//! intervals. A logarithmic axis shows 0 in a shaded band before its scale.

use maud::{Markup, html};
use weft_lab::experiment::{Choice, FilledPicture, PictureAxis, Point};
use weft_lab::results::Estimate;

use super::axis::{BAND, LETTER, Line, figure, px, words};
use super::frame::{Format, Frame, Pen, Picture};
use super::labels::{self, Labelled, Rect, Segment};
use super::palette::{GRID, INK, PAPER, STYLES, hex};
use super::words::{listed, seeds};

/// Space for labels below the picture.
const BELOW: f64 = 26.0;
const MARKER: f64 = 4.5;
/// Points that fit without additional height.
const FEW: usize = 12;
/// Size of the arrow at the end of an interval that goes beyond an axis.
const ARROW: f64 = 4.0;

/// Whether a point is at least as good as another on both axes, and better on one.
fn beats(picture: &FilledPicture, point: &Point, other: &Point) -> bool {
    let gains = |of: fn(&Point) -> f64, axis: &PictureAxis| {
        let more = of(point) - of(other);
        if axis.higher_is_better { more } else { -more }
    };
    let gains = [
        gains(|it| it.x.value, &picture.x),
        gains(|it| it.y.value, &picture.y),
    ];
    gains.iter().all(|it| *it >= 0.0) && gains.iter().any(|it| *it > 0.0)
}

/// The places of the runs that a point rests on, if they are known.
fn runs(point: &Point, count: usize) -> Vec<usize> {
    let each = point.rests_on.iter();
    let mut runs: Vec<usize> = each.flat_map(|it| it.below(count)).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// Draws points between a vertical axis in its frame and a horizontal one.
fn points(
    picture: &FilledPicture,
    choice: &Choice,
    count: usize,
    frame: &Frame,
    x_line: &Line,
) -> Markup {
    let format = frame.format;
    let letters = format.letters();
    let Frame {
        left,
        top,
        bottom,
        y_line,
        ..
    } = frame;
    let (left, top, bottom, right) = (*left, *top, *bottom, x_line.end);
    let x_labels = x_line.labels(|name| name.chars().count() as f64 * letters * LETTER + 8.0);
    let labelled = choice.points.iter().map(|point| {
        let at = (x_line.at(point.x.value), y_line.at(point.y.value));
        let letters_wide = point.name.chars().count() as f64 * letters * LETTER;
        Labelled {
            at,
            size: (letters_wide + 2.0, letters * 1.3),
            bars: bars(point, at, x_line, y_line),
        }
    });
    let labelled: Vec<Labelled> = labelled.collect();
    let bounds = Rect {
        left: left + 2.0,
        top,
        right: format.width() - 1.0,
        bottom: bottom - 2.0,
    };
    let places = labels::place(&labelled, &bounds);
    let (ink, grid, colour) = (hex(INK), hex(GRID), hex(STYLES[0].colour));
    let segment = |((x, y), (to_x, to_y)): Segment, colour: &str, width: f64, opacity: f64| {
        html! {
            line x1=(px(x)) y1=(px(y)) x2=(px(to_x)) y2=(px(to_y)) stroke=(colour) stroke-width=(width)
                opacity=(opacity) {}
        }
    };
    // Two strokes through an axis where its scale is interrupted.
    let interrupted = |(x, y): (f64, f64), (dx, dy): (f64, f64)| {
        html! {
            @for shift in [-2.0, 2.0] {
                @let (x, y) = (x + shift * dx, y + shift * dy);
                (segment(((x - 3.0, y + 5.0), (x + 3.0, y - 5.0)), &ink, 1.5, 1.0))
            }
        }
    };
    html! {
        @if x_line.zero {
            rect x=(px(left)) y=(px(top)) width=(px(BAND - 6.0)) height=(px(bottom - top)) fill=(grid) opacity="0.6" {}
        }
        @if y_line.zero {
            rect x=(px(left)) y=(px(bottom - BAND + 6.0)) width=(px(right - left)) height=(px(BAND - 6.0)) fill=(grid)
                opacity="0.6" {}
        }
        @for (x, name) in &x_labels {
            (segment(((*x, top), (*x, bottom)), &grid, 1.0, 1.0))
            text x=(px(*x)) y=(px(bottom + letters * 1.25)) font-size=(px(letters)) text-anchor="middle" fill=(ink) { (name) }
        }
        @for (y, name) in &frame.y_labels {
            (segment(((left, *y), (right, *y)), &grid, 1.0, 1.0))
            text x=(px(left - 7.0)) y=(px(y + letters * 0.35)) font-size=(px(letters)) text-anchor="end" fill=(ink) { (name) }
        }
        (segment(((left, bottom), (right, bottom)), &ink, 1.0, 1.0))
        (segment(((left, top), (left, bottom)), &ink, 1.0, 1.0))
        @if x_line.zero { (interrupted((left + BAND - 3.0, bottom), (1.0, 0.0))) }
        @if y_line.zero { (interrupted((left, bottom - BAND + 3.0), (0.0, 1.0))) }
        @for bar in labelled.iter().flat_map(|it| &it.bars) { (segment(*bar, &colour, 1.5, 0.55)) }
        @for (of, place) in labelled.iter().zip(&places) {
            @if let Some(line) = labels::line(of, place) { (segment(line, &ink, 0.75, 0.7)) }
        }
        @for ((point, of), place) in choice.points.iter().zip(&labelled).zip(&places) {
            @let runs = runs(point, count);
            @let is_beaten = choice.points.iter().any(|other| beats(picture, other, point));
            g .point data-runs=[listed(&runs)] {
                title { (point.name) "\n" (figure(&picture.x, point.x)) "\n" (figure(&picture.y, point.y))
                    @if let Some(seeds) = seeds(runs.len()) { "\n" (seeds) } }
                circle cx=(px(of.at.0)) cy=(px(of.at.1)) r=(px(MARKER)) fill=(if is_beaten { PAPER } else { &colour })
                    stroke=(colour) stroke-width="1.8" {}
                text x=(px((place.left + place.right) / 2.0)) y=(px(place.bottom - letters * 0.35)) font-size=(px(letters))
                    text-anchor="middle" fill=(ink) stroke=(PAPER) stroke-width="3" paint-order="stroke"
                    stroke-linejoin="round" { (point.name) }
            }
        }
    }
}

/// The lines over a point's intervals. One that goes beyond an axis ends in an arrow there.
fn bars(point: &Point, (x, y): (f64, f64), x_line: &Line, y_line: &Line) -> Vec<Segment> {
    let bar = |it: &Estimate, line: &Line, place: &dyn Fn(f64, f64) -> (f64, f64)| {
        let Some((low, high)) = it.low.zip(it.high).filter(|(low, high)| low < high) else {
            return Vec::new();
        };
        let (from, to) = (line.at(low), line.at(high));
        let mut bar = vec![(place(from, 0.0), place(to, 0.0))];
        if low < line.ticks.from && !(line.zero && low <= 0.0) {
            let back = from + ARROW.copysign(line.end - line.begin);
            bar.extend([ARROW, -ARROW].map(|side| (place(from, 0.0), place(back, side))));
        }
        bar
    };
    let across = bar(&point.x, x_line, &|along, side| (along, y + side));
    let along = bar(&point.y, y_line, &|along, side| (x + side, along));
    [across, along].concat()
}

impl Picture for FilledPicture {
    type Choice = Choice;
    const CLASS: &'static str = "tradeoff";

    fn names(&self) -> (&str, &str, Option<&str>) {
        (&self.name, &self.title, self.choose.as_deref())
    }

    fn choices(&self) -> &[Choice] {
        &self.choices
    }

    fn value(choice: &Choice) -> Option<&str> {
        choice.value.as_deref()
    }

    /// The meaning of the signs, and the points that are not in the picture.
    fn caption(&self, choice: &Choice) -> String {
        let mut text = format!(
            "Filled points: no other {} is better on one axis and at least as good on the other. Crosses: 95 % confidence \
             intervals.",
            self.points
        );
        if !choice.missing.is_empty() {
            text += &format!(" Not measured on both axes: {}.", choice.missing.join(", "));
        }
        text
    }

    fn svg(&self, choice: &Choice, count: usize, format: Format) -> Option<Markup> {
        let all = || self.choices.iter().flat_map(|it| &it.points);
        let xs: Vec<Estimate> = all().map(|it| it.x).collect();
        let ys: Vec<Estimate> = all().map(|it| it.y).collect();
        let most = self.choices.iter().map(|it| it.points.len()).max()?;
        let more = format.either(4.0, 14.0) * most.saturating_sub(FEW) as f64;
        let room = format.either(380.0, 340.0) + more;
        let frame = Frame::new(format, self.title_of(choice), (&self.y, &ys), room)?;
        let right = format.width() - format.either(16.0, 10.0);
        let x_line = Line::new(&self.x, &xs, (frame.left, right))?;
        let of_x = format.wrapped(&words(&self.x, &x_line, ["←", "→"]), 1.0);
        let points = points(self, choice, count, &frame, &x_line);
        let words_top = frame.bottom + BELOW;
        let pen = Pen { scale: 1.0 };
        Some(frame.svg(pen, (&of_x, words_top), &self.caption(choice), &points))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weft_lab::experiment::Places;

    use super::super::Drawn;
    use super::*;

    fn between(low: f64, value: f64, high: f64) -> Estimate {
        Estimate {
            low: Some(low),
            high: Some(high),
            ..Estimate::alone(value)
        }
    }

    fn point(name: &str, x: Estimate, y: Estimate) -> Point {
        Point {
            name: name.to_owned(),
            x,
            y,
            rests_on: [Places::default(), Places::default()],
        }
    }

    fn axis(label: &str, unit: &'static str) -> PictureAxis {
        PictureAxis {
            label: label.to_owned(),
            unit,
            log: true,
            higher_is_better: false,
        }
    }

    /// Twenty points: five within 2 %, one at 0, one whose interval contains 0.
    fn sample() -> FilledPicture {
        let mut points = vec![
            point(
                "no-queue",
                Estimate::alone(0.0),
                between(700.0, 790.0, 900.0),
            ),
            point("a<b", between(-2.0, 6.0, 14.0), between(8.0, 12.0, 15.0)),
        ];
        points.extend((0..5).map(|n| {
            let near = 1.0 + 0.004 * f64::from(n);
            let x = between(48.0 * near, 50.0 * near, 52.0 * near);
            point(
                &format!("similar-{n}"),
                x,
                between(9.0 * near, 10.0 * near, 11.0 * near),
            )
        }));
        points.extend((0..13_i32).map(|n| {
            let x = 20.0 * 1.22_f64.powi(n);
            let y = 2.0 * 1.5_f64.powi(n * 7 % 13);
            let name = format!("scheme-{n}{}", "-long".repeat(n as usize % 3));
            point(
                &name,
                between(x * 0.9, x, x * 1.1),
                between(y * 0.95, y, y * 1.2),
            )
        }));
        FilledPicture {
            name: "tradeoff".to_owned(),
            title: "Slowdown against buffer †".to_owned(),
            x: axis("Buffer", "kB"),
            y: axis("Slowdown, P99", ""),
            points: "scheme".to_owned(),
            choose: None,
            choices: vec![Choice {
                value: None,
                points,
                missing: vec!["ideal".to_owned()],
            }],
        }
    }

    /// To accept a change, run with `WEFT_BLESS=1` and look at the picture.
    #[test]
    fn a_picture_is_the_golden_one() {
        let [Drawn { name, svg, .. }] = &sample().alone(0)[..] else {
            panic!("one picture");
        };
        assert_eq!(name, "tradeoff");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/tradeoff.svg");
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(&path, svg).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(*svg, expected, "{}", path.display());
    }

    /// The places of the markers.
    fn markers(svg: &str) -> Vec<(f64, f64)> {
        let number = |piece: &str, name: &str| -> f64 {
            let text = piece.split(&format!("{name}=\"")).nth(1).unwrap();
            text.split('"').next().unwrap().parse().unwrap()
        };
        let circles = svg.split("<circle").skip(1);
        circles
            .map(|it| (number(it, "cx"), number(it, "cy")))
            .collect()
    }

    #[test]
    fn a_logarithmic_axis_has_a_band_for_zero_only_if_a_point_needs_it() {
        let mut picture = sample();
        let drawn = |picture: &FilledPicture| picture.alone(0)[0].svg.clone();
        let band = "opacity=\"0.6\"";
        let svg = drawn(&picture);
        assert_eq!(svg.matches(band).count(), 1);
        assert!(
            svg.contains(">\n0</text>") || svg.contains(">0</text>"),
            "{svg}"
        );
        let at = markers(&svg);
        assert!(at[1..].iter().all(|it| it.0 > at[0].0 + BAND / 2.0));
        picture.choices[0].points.remove(0);
        assert_eq!(drawn(&picture).matches(band).count(), 0);
        // Negative values have a linear axis.
        picture.choices[0].points[0].x = Estimate::alone(-1.0);
        let svg = drawn(&picture);
        assert!(svg.contains("Buffer, in kB (← lower is better)"), "{svg}");
        assert!(svg.contains("(logarithmic, ↓ lower is better)"), "{svg}");
    }

    #[test]
    fn a_point_that_no_other_one_beats_is_filled() {
        let mut picture = sample();
        let at = |x, y| point("p", Estimate::alone(x), Estimate::alone(y));
        let filled = |picture: &FilledPicture| -> Vec<bool> {
            let svg = picture.alone(0)[0].svg.clone();
            let circles = svg.split("<circle").skip(1);
            circles
                .map(|it| !it.split('>').next().unwrap().contains("fill=\"#FFFFFF\""))
                .collect()
        };
        picture.choices[0].points = vec![at(1.0, 9.0), at(2.0, 3.0), at(2.0, 4.0), at(3.0, 3.0)];
        assert_eq!(filled(&picture), [true, true, false, false]);
        picture.y.higher_is_better = true;
        assert_eq!(filled(&picture), [true, false, false, false]);
    }

    #[test]
    fn choices_have_the_same_axes_and_a_file_each() {
        let mut picture = sample();
        picture.choose = Some("load".to_owned());
        let mut other = picture.choices[0].clone();
        other.points.truncate(3);
        picture.choices[0].value = Some("0.4".to_owned());
        other.value = Some("0.6".to_owned());
        picture.choices.push(other);
        let all = picture.alone(0);
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["tradeoff-0.4", "tradeoff-0.6"]);
        assert_eq!(markers(&all[0].svg)[..3], markers(&all[1].svg)[..]);
        assert!(all[1].svg.contains("Slowdown against buffer †: load 0.6"));
        let page = picture.on_page(0, "").into_string();
        assert_eq!(page.matches("class=\"choice\"").count(), 2);
        assert!(page.contains("<h3>load 0.4</h3>"), "{page}");
    }
}
