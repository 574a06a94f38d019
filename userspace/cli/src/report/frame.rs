// SPDX-License-Identifier: MIT OR Apache-2.0

//! What pictures of points and of lines share: formats, the text around the space for figures, and
//! a picture for each value to choose.

use maud::{Markup, html};
use weft_lab::experiment::{PictureAxis, file_name};
use weft_lab::results::Estimate;

use super::Drawn;
use super::axis::{LETTER, LINE, Line, px, words, wrapped};
use super::palette::{INK, PAPER, hex};

/// A format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Wide,
    /// For a page on a small screen.
    Narrow,
    /// As wide, with a title and a caption, which a page has itself.
    Alone,
}

/// Heights of the letters of the title, and of those below the picture, relative to the others.
const TITLE: f64 = 1.2;
const SMALL: f64 = 0.9;

impl Format {
    /// The value for a wide picture, or for a narrow one.
    pub(super) fn either(self, wide: f64, narrow: f64) -> f64 {
        if self == Self::Narrow { narrow } else { wide }
    }

    pub(super) fn width(self) -> f64 {
        self.either(720.0, 360.0)
    }

    /// The height of letters.
    pub(super) fn letters(self) -> f64 {
        self.either(13.0, 12.0)
    }

    /// Text over the whole width, in lines. `size`: relative to other letters.
    pub(super) fn wrapped(self, text: &str, size: f64) -> Vec<String> {
        let per_line = (self.width() - 16.0) / (size * self.letters() * LETTER);
        wrapped(text, per_line as usize)
    }

    /// The same; no lines on a page.
    fn if_alone(self, text: &str, size: f64) -> Vec<String> {
        match self {
            Self::Alone => self.wrapped(text, size),
            Self::Wide | Self::Narrow => Vec::new(),
        }
    }

    /// The height of lines of text.
    fn height(self, lines: &[String], size: f64) -> f64 {
        lines.len() as f64 * size * self.letters() * LINE
    }
}

/// A picture with a choice, drawn without the plotting library.
pub(super) trait Picture {
    type Choice;
    /// The class of its figure on a page.
    const CLASS: &'static str;

    /// The end of its file's name, its title, and the name of the value to choose.
    fn names(&self) -> (&str, &str, Option<&str>);
    fn choices(&self) -> &[Self::Choice];
    /// The value that is chosen; `None` if there is nothing to choose.
    fn value(choice: &Self::Choice) -> Option<&str>;
    fn caption(&self, choice: &Self::Choice) -> String;
    /// Draws one choice. `count` is the number of the judgement's runs. `None` if there is nothing
    /// to show.
    fn svg(&self, choice: &Self::Choice, count: usize, format: Format) -> Option<Markup>;

    /// A choice as a person says it.
    fn name_of(&self, choice: &Self::Choice) -> String {
        let value = Self::value(choice).unwrap_or_default();
        match self.names().2 {
            None | Some("runs") => value.to_owned(),
            Some(name) => format!("{name} {value}"),
        }
    }

    /// The title of one choice.
    fn title_of(&self, choice: &Self::Choice) -> String {
        let title = self.names().1;
        match Self::value(choice) {
            Some(_) => format!("{title}: {}", self.name_of(choice)),
            None => title.to_owned(),
        }
    }

    /// The standalone pictures of all choices.
    fn alone(&self, count: usize) -> Vec<Drawn> {
        let choices = self.choices().iter().filter_map(|choice| {
            let value = Self::value(choice).map(file_name);
            let name = std::iter::once(self.names().0.to_owned()).chain(value);
            let svg = self.svg(choice, count, Format::Alone)?.into_string();
            Some(Drawn {
                name: name.collect::<Vec<_>>().join("-"),
                title: self.title_of(choice),
                // One element a line.
                svg: svg.replace("><", ">\n<") + "\n",
            })
        });
        choices.collect()
    }

    /// The picture on a page. `of` begins its name where a page has the pictures of several
    /// experiments.
    fn on_page(&self, count: usize, of: &str) -> Markup {
        let (name, title, _) = self.names();
        html! {
            figure class={ "drawn " (Self::CLASS) } id={ "picture-" (of) (name) } {
                h2 { (title) }
                @for choice in self.choices() {
                    @let chosen = Self::value(choice).map(|_| self.name_of(choice));
                    div .choice data-name=[chosen.as_ref()] {
                        @if let Some(chosen) = &chosen { h3 { (chosen) } }
                        @for (class, format) in [("wide", Format::Wide), ("narrow", Format::Narrow)] {
                            div class=(class) { @if let Some(svg) = self.svg(choice, count, format) { (svg) } }
                        }
                        figcaption { (self.caption(choice)) }
                    }
                }
            }
        }
    }
}

/// The vertical axis of a picture and the text above it.
pub(super) struct Frame {
    pub(super) format: Format,
    title: String,
    /// The title in lines, if it is shown.
    heading: Vec<String>,
    of_y: Vec<String>,
    /// The space for figures.
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) y_line: Line,
    pub(super) y_labels: Vec<(f64, String)>,
}

/// Above the title, and below the words of the vertical axis.
const MARGIN: f64 = 6.0;

impl Frame {
    /// For figures in a space of this height. `None` if there are none.
    pub(super) fn new(
        format: Format,
        title: String,
        (y, figures): (&PictureAxis, &[Estimate]),
        room: f64,
    ) -> Option<Self> {
        let letters = format.letters();
        let y_line = Line::new(y, figures, (room, 0.0))?;
        let of_y = format.wrapped(&words(y, &y_line, ["↓", "↑"]), 1.0);
        let heading = format.if_alone(&title, TITLE);
        let above = format.height(&heading, TITLE) + format.height(&of_y, 1.0);
        let top = MARGIN + above + MARGIN;
        let y_line = Line {
            begin: top + room,
            end: top,
            ..y_line
        };
        let y_labels = y_line.labels(|_| letters * 1.2);
        let longest = y_labels.iter().map(|(_, name)| name.chars().count()).max();
        Some(Self {
            format,
            title,
            heading,
            of_y,
            left: 18.0 + longest.unwrap_or(0) as f64 * letters * LETTER,
            top,
            bottom: top + room,
            y_line,
            y_labels,
        })
    }

    /// The whole picture around its figures, which a pen has drawn: with the words of the
    /// horizontal axis from `words_top` on, and below them the caption.
    pub(super) fn svg(
        &self,
        pen: Pen,
        (of_x, words_top): (&[String], f64),
        caption: &str,
        figures: &Markup,
    ) -> Markup {
        let format = self.format;
        let below = format.if_alone(caption, SMALL);
        let below_top = words_top + format.height(of_x, 1.0) + 4.0;
        let width = format.width();
        let height = below_top + format.height(&below, SMALL) + MARGIN;
        let text =
            |lines: &[String], top: f64, size: f64| pen.text(lines, top, size * format.letters());
        html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(px(width)) height=(px(height))
                viewBox={ "0 0 " (pen.at(width)) " " (pen.at(height)) } font-family="system-ui, sans-serif" role="img" aria-label=(self.title) {
                @if format == Format::Alone {
                    rect width=(pen.at(width)) height=(pen.at(height)) fill=(PAPER) {}
                    (text(&self.heading, MARGIN, TITLE))
                    (text(&below, below_top, SMALL))
                }
                (text(&self.of_y, MARGIN + format.height(&self.heading, TITLE), 1.0))
                (text(of_x, words_top, 1.0))
                (figures)
            }
        }
    }
}

/// Writes lengths, in units of the picture's coordinates.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    pub(super) scale: f64,
}

impl Pen {
    pub(super) fn at(self, length: f64) -> String {
        px(length * self.scale)
    }

    /// Lines of text from a height on.
    fn text(self, lines: &[String], top: f64, letters: f64) -> Markup {
        html! {
            @for (number, line) in lines.iter().enumerate() {
                text x=(self.at(8.0)) y=(self.at(top + (number as f64 + 0.8) * letters * LINE)) font-size=(self.at(letters))
                    fill=(hex(INK)) { (line) }
            }
        }
    }
}
