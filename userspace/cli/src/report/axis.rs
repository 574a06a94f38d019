// SPDX-License-Identifier: MIT OR Apache-2.0

//! The axes of pictures that are drawn without the plotting library, and their words.

use weft_lab::experiment::{MARK, PictureAxis};
use weft_lab::results::Estimate;

use super::ticks::{self, Scale, Ticks};
use crate::compare::table::show;

/// Approximate width of a letter relative to its height.
pub(super) const LETTER: f64 = 0.58;
/// Height of a line of text relative to its letters.
pub(super) const LINE: f64 = 1.35;
/// Width of the band for 0.
pub(super) const BAND: f64 = 36.0;
/// Intervals do not extend a logarithmic axis below this part of their value.
const LEAST: f64 = 0.4;

/// An axis on the picture.
pub(super) struct Line {
    pub(super) ticks: Ticks,
    pub(super) scale: Scale,
    /// Whether it begins with a band for 0.
    pub(super) zero: bool,
    pub(super) begin: f64,
    pub(super) end: f64,
}

impl Line {
    /// An axis for these figures. `None` if there are none.
    pub(super) fn new(
        of: &PictureAxis,
        figures: &[Estimate],
        (begin, end): (f64, f64),
    ) -> Option<Self> {
        let is = |test: fn(f64) -> bool| figures.iter().any(|it| test(it.value));
        // A logarithmic axis has no negative values, and needs a positive one.
        let log = of.log && is(|it| it > 0.0) && !is(|it| it < 0.0);
        let scale = if log { Scale::Log } else { Scale::Linear };
        let ends = figures.iter().flat_map(|it| {
            let least = if log { it.value * LEAST } else { f64::MIN };
            [Some(it.value), it.low.map(|low| low.max(least)), it.high]
        });
        Some(Self {
            ticks: Ticks::new(scale, ends.flatten())?,
            scale,
            zero: log && is(|it| it == 0.0),
            begin,
            end,
        })
    }

    /// From the begin towards the end by this length.
    pub(super) fn after(&self, length: f64) -> f64 {
        self.begin + length.copysign(self.end - self.begin)
    }

    /// Where its scale begins.
    pub(super) fn start(&self) -> f64 {
        self.after(if self.zero { BAND } else { 0.0 })
    }

    /// The place of a value. The scale's ends stand for values beyond them, and the band for 0.
    pub(super) fn at(&self, value: f64) -> f64 {
        if self.zero && value <= 0.0 {
            return self.after(BAND / 2.0);
        }
        let start = self.start();
        if self.scale == Scale::Log && value <= 0.0 {
            return start;
        }
        start + self.ticks.share(value).clamp(0.0, 1.0) * (self.end - start)
    }

    /// Its labelled places. A label takes `room`, and one for which there is none is left out.
    pub(super) fn labels(&self, room: impl Fn(&str) -> f64) -> Vec<(f64, String)> {
        let mut labels: Vec<(f64, String)> = Vec::new();
        let zero = self.zero.then_some(0.0);
        for value in zero.into_iter().chain(self.ticks.at.iter().copied()) {
            let (at, name) = (self.at(value), ticks::number(value));
            let fits = labels
                .last()
                .is_none_or(|(last, other)| (at - last).abs() > (room(&name) + room(other)) / 2.0);
            if fits {
                labels.push((at, name));
            }
        }
        labels
    }
}

/// The measure with its unit, its scale and the better direction.
pub(super) fn words(axis: &PictureAxis, line: &Line, arrows: [&str; 2]) -> String {
    let unit = match axis.unit {
        "" => String::new(),
        unit => format!(", in {unit}"),
    };
    let scale = match line.scale {
        Scale::Log => "logarithmic, ",
        _ => "",
    };
    let better = match axis.higher_is_better {
        true => format!("{} higher is better", arrows[1]),
        false => format!("{} lower is better", arrows[0]),
    };
    format!("{}{unit} ({scale}{better})", axis.label)
}

/// Lines of at most `width` letters.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // Not between a text and its mark.
    let text = text.replace(&format!(" {MARK}"), &format!("\u{a0}{MARK}"));
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A figure in words: its label, its value with the interval, its unit.
pub(super) fn figure(axis: &PictureAxis, figure: Estimate) -> String {
    format!("{}: {} {}", axis.label, show(Some(figure)), axis.unit)
        .trim_end()
        .to_owned()
}

/// A length in the picture.
pub(super) fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
