// SPDX-License-Identifier: MIT OR Apache-2.0

//! Experiments: a paper's measurements, as runs, and its claims about them.
//!
//! | module          | contents                                                             |
//! |-----------------|----------------------------------------------------------------------|
//! | `description`   | the file that describes an experiment                                |
//! | `plan`          | its runs: one for every combination of values                        |
//! | `selected`      | whether tables, pictures and claims select runs of the plan          |
//! | `found`         | the existing results, and whether they are those of the plan         |
//! | `ideal`         | the times of the same flows under the ideal schedule                 |
//! | `measure`       | a measure: the figure, and the flows and ports that it is of         |
//! | `figure`        | the measures that an experiment may name, and their values for a run |
//! | `statistic`     | the figure of many values                                            |
//! | `judge`         | claims and tables over all runs                                      |
//! | `picture`       | pictures of one measure against another, from the tables             |
//! | `curves`        | pictures with a line for each scheme, from the tables                |
//! | `kept`          | judgements that weft brings, and whether results match one           |
//! | `own`           | an experiment under other schemes, beside its kept results           |
//! | `fingerprint`   | whether the present source would give the kept results               |
//! | `marks`         | the figures of a kept judgement that rest on possibly stale results  |
//!
//! `userspace/experiments/README.md` describes the files, and has the findings of each.

mod curves;
mod description;
mod figure;
mod fingerprint;
mod found;
mod ideal;
mod judge;
mod kept;
mod made;
mod marks;
mod measure;
mod own;
mod picture;
mod plan;
mod selected;
mod statistic;

pub use curves::{Along, Curve, FilledCurves, Knot, Lines};
pub use description::{Claim, Description, Experiment, Value, Why, named, names};
pub use fingerprint::{
    Fingerprints, Known, Sources, State, known, name, name_of, read, states, text,
};
pub use found::{Done, Found, Results, find, results};
pub use ideal::add;
pub use judge::{Comparisons, FilledTable, Judged, Judgement, Places, Row, RunState, Verdict};
pub use kept::{Beside, kept, kept_as_written};
pub use made::{Fingerprint, Made, RELEASE, Sample};
pub use marks::{MARK, Marks};
pub use picture::{Choice, FilledPicture, PictureAxis, Point};
pub use plan::{Asked, Planned, file_name, plan};
