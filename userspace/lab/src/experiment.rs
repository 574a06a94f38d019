// SPDX-License-Identifier: MIT OR Apache-2.0

//! Experiments: what a paper measured, as runs, and what it says of them.
//!
//! | module          | what it holds                                                        |
//! |-----------------|----------------------------------------------------------------------|
//! | `description`   | the file that an experiment is                                       |
//! | `plan`          | its runs: one for every combination of values                        |
//! | `found`         | the results that are there, and whether they are those of the plan   |
//! | `ideal`         | what the same flows would have taken under the ideal schedule        |
//! | `measure`       | what is measured                                                     |
//! | `figure`        | the same of a run                                                    |
//! | `judge`         | claims and tables over all runs                                      |
//! | `kept`          | judgements that weft brings, and whether results are those of one    |
//! | `fingerprint`   | whether kept results are those that today's source gives             |
//! | `marks`         | which figures of a kept judgement rest on results that may be others |
//!
//! `userspace/experiments/README.md` describes the files, and has what each gave.

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
mod plan;

pub use description::{Claim, Description, Experiment, Value, named, names};
pub use fingerprint::{
    Fingerprints, Known, Sources, State, known, name, name_of, read, states, text,
};
pub use found::{Done, Found, Results, find, results};
pub use ideal::add;
pub use judge::{FilledTable, Judged, Judgement, Places, Row, RunState, Verdict};
pub use kept::{Beside, kept};
pub use made::{Fingerprint, Made, RELEASE};
pub use marks::{MARK, Marks};
pub use plan::{Asked, Planned, plan};
