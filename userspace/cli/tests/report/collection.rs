// SPDX-License-Identifier: MIT OR Apache-2.0

//! The comparison in a browser: many experiments on one page.

use std::process::Command;

use serde_json::json;

use crate::browser::Browser;
use crate::{DESKTOP, PHONE, files};

/// Of each article, what the card says of the first point with runs that is shown, or of the first
/// one in its unfolded part.
const CARDS: &str = r##"(() => [...document.querySelectorAll("article")].map((article) => {
  article.querySelector("details").open = true;
  const points = [...article.querySelectorAll(".point")].filter((it) => it.checkVisibility());
  const point = points.find((it) => (it.dataset.runs ?? "") !== "");
  point.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const text = document.querySelector("#card pre").textContent;
  const folders = new Set([...text.matchAll(/--out results\/([a-z0-9-]+)/g)].map((it) => it[1]));
  article.querySelector("details").open = false;
  return [article.id, [...folders]];
}))()"##;

/// The choices that are made after the last one of each figure was chosen.
const CHOSEN: &str = r##"(() => {
  const groups = [...document.querySelectorAll(".drawn fieldset")];
  for (const group of groups) [...group.querySelectorAll("input")].at(-1).click();
  return [groups.length, groups.every((it) => [...it.querySelectorAll("input")].at(-1).checked)];
})()"##;

#[test]
fn each_experiment_on_the_comparison_has_its_own_commands_and_choices() {
    let folder = files::folder("report-collection");
    let file = folder.join("comparison.html");
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["experiments", "page"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let mut browser = Browser::start(&folder);
    for (width, dark) in [(DESKTOP, false), (PHONE, true)] {
        browser.look(width, dark);
        browser.open(&file);
        let wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(wider), json!(0), "{width}");
        let links = r##"[...document.querySelectorAll("nav a")]
            .every((it) => document.querySelector(it.getAttribute("href")).matches("article"))"##;
        assert_eq!(browser.evaluate(links), json!(true));
        let cards = browser.evaluate(CARDS);
        let cards = cards.as_array().unwrap();
        assert!(cards.len() > 10, "{cards:?}");
        for card in cards {
            assert_eq!(card[1], json!([card[0]]), "{width}");
        }
        let chosen = browser.evaluate(CHOSEN);
        assert!(chosen[0].as_u64().unwrap() > 0, "{chosen}");
        assert_eq!(chosen[1], json!(true));
        assert!(
            browser.complaints().is_empty(),
            "{:?}",
            browser.complaints()
        );
        assert_eq!(browser.requests().len(), 1, "{:?}", browser.requests());
    }
}
