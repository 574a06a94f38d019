// SPDX-License-Identifier: MIT OR Apache-2.0

//! The places of labels beside points: a search for places where no label covers another one, and
//! few cover points, intervals or the lines that join labels to their points. The same points give
//! the same places.

/// A rectangle; y grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// From one point to another.
pub(super) type Segment = ((f64, f64), (f64, f64));

/// A point with a label.
pub(super) struct Labelled {
    pub(super) at: (f64, f64),
    /// The size of the label.
    pub(super) size: (f64, f64),
    /// Its intervals.
    pub(super) bars: Vec<Segment>,
}

/// Half of the space that a point's marker covers.
const MARKER: f64 = 6.0;
/// The distance of a label without a line to its point.
const NEAR: f64 = 9.0;
/// Larger distances, for which a line joins the label to its point.
const RINGS: [f64; 8] = [20.0, 30.0, 42.0, 56.0, 72.0, 92.0, 116.0, 144.0];
/// Directions on each ring.
const DIRECTIONS: usize = 16;
/// Distances of the places that are tried if all on the rings are taken.
const GRID: (f64, f64) = (8.0, 4.0);
/// Labels are placed again, each beside all others, until none moves: at most this often.
const ROUNDS: usize = 8;

/// What a place costs, in units of distance.
const OUTSIDE: f64 = 1e9;
const ON_LABEL: f64 = 1e6;
const ON_MARKER: f64 = 300.0;
const LINE_ON_LABEL: f64 = 120.0;
const LINE_ON_LINE: f64 = 80.0;
const LINE_ON_MARKER: f64 = 40.0;
const ON_BAR: f64 = 16.0;
const HAS_LINE: f64 = 10.0;
/// Next to another point.
const AMBIGUOUS: f64 = 30.0;
/// A gain for which no label moves.
const LITTLE: f64 = 1.0;

impl Rect {
    fn around((x, y): (f64, f64), (width, height): (f64, f64)) -> Self {
        Self {
            left: x - width / 2.0,
            top: y - height / 2.0,
            right: x + width / 2.0,
            bottom: y + height / 2.0,
        }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn contains(&self, other: &Self) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }

    /// The nearest point of the rectangle.
    fn nearest(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            x.clamp(self.left, self.right),
            y.clamp(self.top, self.bottom),
        )
    }

    /// Whether a segment has a part inside.
    fn meets(&self, ((x, y), (to_x, to_y)): Segment) -> bool {
        // Liang and Barsky's clipping.
        let (mut from, mut until) = (0.0_f64, 1.0_f64);
        let sides = [
            (x - to_x, x - self.left),
            (to_x - x, self.right - x),
            (y - to_y, y - self.top),
            (to_y - y, self.bottom - y),
        ];
        for (change, room) in sides {
            if change == 0.0 {
                if room <= 0.0 {
                    return false;
                }
            } else if change < 0.0 {
                from = from.max(room / change);
            } else {
                until = until.min(room / change);
            }
        }
        from < until
    }
}

fn distance((a, b): (f64, f64), (c, d): (f64, f64)) -> f64 {
    (a - c).hypot(b - d)
}

/// Whether two segments cross.
fn cross((a, b): Segment, (c, d): Segment) -> bool {
    let side = |from: (f64, f64), to: (f64, f64), of: (f64, f64)| {
        (to.0 - from.0) * (of.1 - from.1) - (to.1 - from.1) * (of.0 - from.0)
    };
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

/// The line that joins a label to its point, if it needs one.
pub(super) fn line(of: &Labelled, label: &Rect) -> Option<Segment> {
    let end = label.nearest(of.at);
    (distance(of.at, end) > NEAR + 3.0).then_some((of.at, end))
}

/// The places of a label to try, from near to far.
fn candidates(of: &Labelled) -> impl Iterator<Item = Rect> {
    let ((x, y), (width, height)) = (of.at, of.size);
    let ring = move |far: f64| {
        (0..DIRECTIONS).map(move |number| {
            let angle = number as f64 / DIRECTIONS as f64 * std::f64::consts::TAU;
            // Towards a diagonal, a corner of the label is next to the point.
            let side = |share: f64| (1.5 * share).clamp(-1.0, 1.0) / 2.0;
            let (across, along) = (angle.cos(), angle.sin());
            let centre = (
                x + across * far + side(across) * width,
                y + along * far + side(along) * height,
            );
            Rect::around(centre, (width, height))
        })
    };
    std::iter::once(NEAR).chain(RINGS).flat_map(ring)
}

/// All places within bounds, on a grid.
fn everywhere(of: &Labelled, bounds: &Rect) -> impl Iterator<Item = Rect> {
    let (width, height) = of.size;
    let (left, top) = (bounds.left + width / 2.0, bounds.top + height / 2.0);
    let steps = |room: f64, step: f64| 0..=(room / step).max(0.0) as u32;
    let columns = steps(bounds.right - bounds.left - width, GRID.0);
    let rows = steps(bounds.bottom - bounds.top - height, GRID.1);
    let at = move |(row, column)| {
        let x = left + f64::from(column) * GRID.0;
        let y = top + f64::from(row) * GRID.1;
        Rect::around((x, y), (width, height))
    };
    rows.flat_map(move |row| columns.clone().map(move |column| (row, column)))
        .map(at)
}

/// The search: the points, and the places that their labels have so far.
struct Search<'a> {
    points: &'a [Labelled],
    bounds: &'a Rect,
    placed: Vec<Option<Rect>>,
}

impl Search<'_> {
    /// The cost of a place for a label beside the others.
    fn cost(&self, own: usize, label: &Rect) -> f64 {
        let point = &self.points[own];
        let line_to = line(point, label);
        let far = distance(point.at, label.nearest(point.at));
        let mut cost = far;
        if !self.bounds.contains(label) {
            cost += OUTSIDE;
        }
        if line_to.is_some() {
            cost += HAS_LINE;
        }
        for (place, other) in self.points.iter().enumerate() {
            let marker = Rect::around(other.at, (2.0 * MARKER, 2.0 * MARKER));
            if label.overlaps(&marker) {
                cost += ON_MARKER;
            }
            let bars = other.bars.iter().filter(|bar| label.meets(**bar)).count();
            cost += ON_BAR * bars as f64;
            if place == own {
                continue;
            }
            if line_to.is_some_and(|line| marker.meets(line)) {
                cost += LINE_ON_MARKER;
            }
            if distance(other.at, label.nearest(other.at)) < far.min(2.0 * NEAR) + MARKER {
                cost += AMBIGUOUS;
            }
            let Some(their) = &self.placed[place] else {
                continue;
            };
            if label.overlaps(their) {
                cost += ON_LABEL;
            }
            if line_to.is_some_and(|line| their.meets(line)) {
                cost += LINE_ON_LABEL;
            }
            if let Some(their_line) = line(other, their) {
                if label.meets(their_line) {
                    cost += LINE_ON_LABEL;
                }
                if line_to.is_some_and(|line| cross(line, their_line)) {
                    cost += LINE_ON_LINE;
                }
            }
        }
        cost
    }

    /// The best place, its first one if several are as good.
    fn best(&self, own: usize) -> Option<Rect> {
        let least = |all: &mut dyn Iterator<Item = Rect>| {
            all.map(|label| (self.cost(own, &label), label))
                .reduce(|best, next| if next.0 < best.0 - LITTLE { next } else { best })
        };
        let near = least(&mut candidates(&self.points[own]));
        match near {
            Some((cost, label)) if cost < ON_LABEL => Some(label),
            near => {
                let all = everywhere(&self.points[own], self.bounds);
                let all = near.map(|it| it.1).into_iter().chain(all);
                least(&mut { all }).map(|it| it.1)
            }
        }
    }
}

/// The place of each point's label within bounds.
pub(super) fn place(points: &[Labelled], bounds: &Rect) -> Vec<Rect> {
    const CLOSE: f64 = 60.0;
    let crowd = |place: usize| {
        let near = |other: &&Labelled| distance(other.at, points[place].at) < CLOSE;
        points.iter().filter(near).count()
    };
    // Those in a crowd first.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&place| (std::cmp::Reverse(crowd(place)), place));
    let mut search = Search {
        points,
        bounds,
        placed: vec![None; points.len()],
    };
    for _ in 0..ROUNDS {
        let mut moved = false;
        for &place in &order {
            let best = search.best(place);
            moved |= best != search.placed[place];
            search.placed[place] = best;
        }
        if !moved {
            break;
        }
    }
    let placed = search.placed.into_iter().zip(points);
    placed
        .map(|(label, point)| label.unwrap_or_else(|| Rect::around(point.at, point.size)))
        .collect()
}

#[cfg(test)]
mod tests {
    use weft_mechanisms::common::xorshift::Xorshift32;

    use super::*;

    const WIDE: Rect = Rect {
        left: 60.0,
        top: 20.0,
        right: 700.0,
        bottom: 380.0,
    };
    const NARROW: Rect = Rect {
        left: 45.0,
        top: 20.0,
        right: 350.0,
        bottom: 380.0,
    };

    fn assert_are_apart(points: &[Labelled], bounds: &Rect, what: &str) {
        let labels = place(points, bounds);
        assert_eq!(labels, place(points, bounds), "{what}: another search");
        for (place, label) in labels.iter().enumerate() {
            assert!(bounds.contains(label), "{what}: {label:?} is outside");
            for other in &labels[..place] {
                assert!(!label.overlaps(other), "{what}: {label:?} and {other:?}");
            }
        }
    }

    #[test]
    fn no_labels_of_random_points_overlap() {
        for seed in 0..16 {
            let mut random = Xorshift32::new(seed + 1);
            let mut number = || f64::from(random.draw()) / 2_f64.powi(32);
            let bounds = if seed % 2 == 0 { WIDE } else { NARROW };
            // From points all over the picture to points that are in one place.
            let spread = [1.0, 0.3, 0.05, 0.0][seed as usize / 2 % 4];
            let centre = (number(), number());
            let mut between = |low: f64, high: f64, centre: f64| {
                let share = centre + spread * (number() - centre);
                low + share * (high - low)
            };
            let points: Vec<Labelled> = (0..24)
                .map(|place| {
                    let x = between(bounds.left, bounds.right, centre.0);
                    let y = between(bounds.top, bounds.bottom, centre.1);
                    Labelled {
                        at: (x, y),
                        size: (20.0 + f64::from(place % 7) * 12.0, 14.0),
                        bars: vec![((x - 15.0, y), (x + 15.0, y)), ((x, y - 8.0), (x, y + 8.0))],
                    }
                })
                .collect();
            assert_are_apart(&points, &bounds, &format!("seed {seed}"));
        }
    }

    #[test]
    fn a_point_alone_has_its_label_beside_it() {
        let points = [Labelled {
            at: (300.0, 200.0),
            size: (50.0, 14.0),
            bars: Vec::new(),
        }];
        let labels = place(&points, &WIDE);
        assert_eq!((labels[0].left, labels[0].top), (309.0, 193.0));
        assert_eq!(line(&points[0], &labels[0]), None);
    }

    #[test]
    fn a_label_far_from_its_point_has_a_line() {
        let near = |x| Labelled {
            at: (x, 200.0),
            size: (70.0, 14.0),
            bars: Vec::new(),
        };
        let points: Vec<Labelled> = (0..8).map(|n| near(300.0 + f64::from(n))).collect();
        let labels = place(&points, &WIDE);
        let lines: Vec<Segment> = points
            .iter()
            .zip(&labels)
            .filter_map(|(p, l)| line(p, l))
            .collect();
        assert!(lines.len() >= 4, "{lines:?}");
    }
}
