// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments page`: the comparison, or chosen experiments, on one page.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use weft_lab::error::usage;
use weft_lab::experiment::{self, Experiment, Marks};

use super::{chosen, stale};
use crate::report::{self, Part};
use crate::{output, progress};

/// The comparison's text.
const TEXT: &str = include_str!("comparison.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    title: String,
    /// Paragraphs before the parts.
    lead: String,
    /// What the page does not answer.
    remains: Vec<String>,
    parts: Vec<PartText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartText {
    title: String,
    experiment: String,
    pictures: Vec<String>,
    says: Vec<String>,
}

/// Writes the page.
///
/// # Errors
///
/// If an experiment does not exist or has no kept results, or the file cannot be written.
pub(super) fn write(file: &Path, chosen: &[String]) -> Result<()> {
    output::require_file(file)?;
    let page = match chosen {
        [] => comparison()?,
        _ => of(chosen)?,
    };
    output::write(file, page.as_bytes())
}

fn comparison() -> Result<String> {
    let text: Text = toml::from_str(TEXT).context("the comparison's text")?;
    let parts = progress::each("experiments", false, text.parts);
    let parts = parts.map(|text| {
        Ok(Part {
            title: text.title,
            pictures: text.pictures,
            says: text.says,
            ..part(&text.experiment)?
        })
    });
    let parts: Vec<Part> = parts.collect::<Result<_>>()?;
    report::of_collection((&text.title, &text.lead), &parts, &text.remains)
}

fn of(chosen: &[String]) -> Result<String> {
    let names = chosen::of_weft(chosen)?;
    let title = names.join(", ");
    let parts = progress::each("experiments", false, names).map(part);
    let parts: Vec<Part> = parts.collect::<Result<_>>()?;
    report::of_collection((&title, ""), &parts, &[])
}

/// An experiment with its own title, and without sentences.
fn part(name: &str) -> Result<Part> {
    let experiment = Experiment::find(name)?;
    let Some(judged) = experiment::kept(&experiment)? else {
        return usage(format!(
            "{name} has no kept results; `weft run {name} --page FILE` runs it and writes its page"
        ));
    };
    let marks = Marks::new(&stale::states(&experiment, &judged)?);
    Ok(Part {
        title: experiment.description.title.clone(),
        experiment,
        judged,
        marks,
        pictures: Vec::new(),
        says: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_has_its_figures_and_each_experiment_its_commands() {
        let page = comparison().unwrap();
        let text: Text = toml::from_str(TEXT).unwrap();
        assert_eq!(page.matches("<article ").count(), text.parts.len());
        assert_eq!(
            page.matches("<pre class=\"runs\">").count(),
            text.parts.len()
        );
        let references: usize = text
            .parts
            .iter()
            .flat_map(|part| &part.says)
            .map(|sentence| sentence.matches('{').count())
            .sum();
        assert_eq!(page.matches("class=\"figure\"").count(), references);
        for part in &text.parts {
            assert!(page.contains(&format!("href=\"#{}\"", part.experiment)));
            assert!(page.contains(&format!("<article id=\"{}\"", part.experiment)));
        }
        // Names of pictures are links' targets and groups of buttons.
        let ids = page.split(" id=\"").skip(1).map(|it| it.split('"').next());
        let mut ids: Vec<_> = ids.collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn chosen_experiments_have_a_page_too() {
        let names = ["shoot-out-tails", "fair-queueing"].map(str::to_owned);
        let page = of(&names).unwrap();
        assert_eq!(page.matches("<article ").count(), 2);
        let error = of(&["shoot-out-tails".to_owned(), "none".to_owned()]).unwrap_err();
        assert!(
            error.to_string().contains("no experiment `none`"),
            "{error}"
        );
    }
}
