// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment's page in a browser: its picture of one measure against another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::{DESKTOP, PHONE, files, own, sample};

const EXPERIMENT: &str = r#"
title = "Trade-off"
source = "s"
about = "a"
seeds = [1, 2, 3]
[[runs]]
name = "few"
options = "fat-tree:k=4 --dilation 1000 --scheme ./plain --workload web-search --load {load} --flows 200"
each.load = [0.2, 0.4, 0.41, 0.6]
[[runs]]
name = "many"
options = "fat-tree:k=4 --dilation 1000 --scheme ./plain --workload web-search --load {load} --flows 300"
each.load = [0.2, 0.4, 0.41, 0.6]
[measures]
time = { of = "time", statistic = "mean" }
slowdown = { of = "slowdown", statistic = "p99" }
[[tables]]
title = "Both"
measures = ["time", "slowdown"]
rows = ["runs", "load"]
[[pictures]]
name = "tradeoff"
title = "Slowdown against time"
x = "time"
y = "slowdown"
log = ["x", "y"]
points = "load"
choose = "runs"
[[claims]]
says = "slow"
paper = "1"
measure = "slowdown"
at_least = 1
"#;

/// The page of an experiment with synthetic results.
fn page(folder: &Path) -> PathBuf {
    own::write(folder, EXPERIMENT);
    for (runs, flows) in [("few", 200), ("many", 300)] {
        for load in ["0.2", "0.4", "0.41", "0.6"] {
            let place = folder.join(format!("results/mine/{runs}-load-{load}"));
            fs::create_dir_all(&place).unwrap();
            for seed in 1..=3 {
                let slowness = 1.0 + 6.0 * load.parse::<f64>().unwrap();
                let mut sample = sample::sample("plain", seed, flows, slowness);
                let options = format!(
                    "fat-tree:k=4 --dilation 1000 --workload web-search --load {load} --flows {flows}"
                );
                sample.header.options = options.split(' ').map(str::to_owned).collect();
                sample.header.parameters.clear();
                sample.write(&place);
            }
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["run", "./mine.toml", "--judge", "--page", "page.html"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.code() < Some(2), "{output:?}");
    folder.join("page.html")
}

/// Labels of points that overlap or leave their picture, the smallest letters in px, the width of
/// what is too wide, the colour of names, and whether the first picture is drawn.
const LAYOUT: &str = r#"(() => {
  const shown = [...document.querySelectorAll(".tradeoff svg")].filter((it) => it.checkVisibility());
  const wrong = [];
  let letters = Infinity;
  let names = 0;
  for (const svg of shown) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")];
    letters = Math.min(letters, ...texts.map((it) => svg.getScreenCTM().a * parseFloat(it.getAttribute("font-size"))));
    const labels = [...svg.querySelectorAll(".point text")];
    names += labels.length;
    const boxes = texts.map((it) => it.getBoundingClientRect());
    boxes.forEach((a, place) => {
      if (a.left < frame.left || a.right > frame.right || a.bottom > frame.bottom) wrong.push(texts[place].textContent);
      boxes.slice(0, place).forEach((b, other) => {
        // Boxes of names have more space above and below than their letters.
        if (a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
          wrong.push(`${texts[place].textContent} on ${texts[other].textContent}`);
      });
    });
  }
  return {
    pictures: shown.length, names, letters, wrong,
    wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    ink: getComputedStyle(document.querySelector(".point text")).fill,
    paper: getComputedStyle(document.body).backgroundColor,
    halo: getComputedStyle(document.querySelector(".point text")).stroke,
  };
})()"#;

const CARD: &str = r##"(() => {
  const card = document.querySelector("#card");
  const box = card.getBoundingClientRect();
  return {
    hidden: card.hidden, text: card.innerText, focus: document.activeElement.textContent,
    inside: box.left >= 0 && box.right <= document.documentElement.clientWidth,
  };
})()"##;

fn press(browser: &mut Browser, key: &str) {
    let text = if key == "Enter" { "\r" } else { "" };
    let code = match key {
        "Enter" => 13,
        "Tab" => 9,
        _ => 27,
    };
    for kind in ["keyDown", "keyUp"] {
        let mut event =
            json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
        if kind == "keyDown" && !text.is_empty() {
            event["text"] = json!(text);
        }
        browser.call("Input.dispatchKeyEvent", event);
    }
}

fn mouse(browser: &mut Browser, kind: &str, at: &Value) {
    let button = if kind == "mouseMoved" { "none" } else { "left" };
    let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": button, "clickCount": 1 });
    browser.call("Input.dispatchMouseEvent", event);
}

#[test]
fn a_point_shows_its_figures_and_commands_to_mouse_and_keyboard() {
    let folder = files::folder("report-tradeoff");
    let file = page(&folder);
    // It is complete without the script.
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("class=\"choice\"").count(), 2);
    assert_eq!(text.matches("<g class=\"point\"").count(), 4 * 2 * 2);
    assert!(text.contains("<title>0.41\ntime: "), "{text}");

    let mut browser = Browser::start(&folder);
    for (width, dark) in [
        (DESKTOP, false),
        (DESKTOP, true),
        (PHONE, false),
        (PHONE, true),
    ] {
        let what = format!("{width} px, dark: {dark}");
        browser.look(width, dark);
        browser.open(&file);
        let layout = browser.evaluate(LAYOUT);
        assert_eq!(layout["wrong"], json!([]), "{what}");
        assert_eq!(
            (&layout["pictures"], &layout["names"]),
            (&json!(1), &json!(4))
        );
        assert!(
            layout["letters"].as_f64().unwrap() >= 9.0,
            "{what}: {layout}"
        );
        assert!(layout["wider"].as_f64().unwrap() <= 0.0, "{what}: {layout}");
        assert_eq!(layout["halo"], layout["paper"], "{what}");
        assert_ne!(layout["ink"], layout["paper"], "{what}");
        // With the mouse.
        let at = browser.evaluate(
            "document.querySelector('.tradeoff').scrollIntoView();
             [...document.querySelectorAll('.point circle')].filter((it) => it.checkVisibility())
               .map((it) => it.getBoundingClientRect()).map((it) => [it.x + it.width / 2, it.y + it.height / 2])[3]",
        );
        mouse(&mut browser, "mouseMoved", &at);
        let card = browser.evaluate(CARD);
        assert_eq!(
            (&card["hidden"], &card["inside"]),
            (&json!(false), &json!(true)),
            "{what}: {card}"
        );
        let text = card["text"].as_str().unwrap();
        for said in [
            "0.6\n",
            "time: ",
            "slowdown: ",
            "3 seeds",
            "weft run fat-tree:k=4 --dilation 1000",
            "--seed 3",
            "\n# ",
        ] {
            assert!(text.contains(said), "{what}, {said}: {text}");
        }
        mouse(&mut browser, "mouseMoved", &json!([2, 2]));
        assert_eq!(browser.evaluate(CARD)["hidden"], true, "{what}");
        mouse(&mut browser, "mouseMoved", &at);
        mouse(&mut browser, "mousePressed", &at);
        mouse(&mut browser, "mouseReleased", &at);
        mouse(&mut browser, "mouseMoved", &json!([2, 2]));
        let card = browser.evaluate(CARD);
        assert_eq!(card["hidden"], false, "{what}");
        assert!(
            card["text"].as_str().unwrap().contains("Copy commands"),
            "{what}: {card}"
        );
        press(&mut browser, "Escape");
        assert_eq!(browser.evaluate(CARD)["hidden"], true, "{what}");
        // A dot of a table's picture.
        let dot = browser.evaluate(
            "document.querySelector('circle.point').scrollIntoView({ block: 'center' });
             [document.querySelector('circle.point').getBoundingClientRect()]
               .map((it) => [it.x + it.width / 2, it.y + it.height / 2])[0]",
        );
        mouse(&mut browser, "mouseMoved", &dot);
        let card = browser.evaluate(CARD);
        let text = card["text"].as_str().unwrap();
        assert!(text.starts_with("few 0.2\n\ntime (µs): "), "{what}: {card}");
        assert!(
            text.contains("3 seeds") && text.contains("--seed 3"),
            "{what}: {card}"
        );
        // With the keyboard: the first point follows the selector.
        browser.evaluate("document.querySelector('.tradeoff input').focus()");
        press(&mut browser, "Tab");
        let card = browser.evaluate(CARD);
        assert!(
            card["text"].as_str().unwrap().starts_with("0.2\n"),
            "{what}: {card}"
        );
        press(&mut browser, "Enter");
        assert_eq!(browser.evaluate(CARD)["focus"], "Copy commands", "{what}");
        press(&mut browser, "Enter");
        let status = "document.querySelector('#card [role=status]').textContent";
        let said = (0..100)
            .map(|_| browser.evaluate(status))
            .find(|said| *said != "");
        assert!(said.is_some(), "{what}: nothing is copied");
        press(&mut browser, "Escape");
        assert_eq!(browser.evaluate(CARD)["hidden"], true, "{what}");
        // The other choice.
        browser.evaluate("document.querySelectorAll('.tradeoff input')[1].click()");
        let heading = "[...document.querySelectorAll('.choice')].map((it) => it.checkVisibility())";
        assert_eq!(browser.evaluate(heading), json!([false, true]), "{what}");
        assert_eq!(browser.evaluate(LAYOUT)["wrong"], json!([]), "{what}");
        assert!(
            browser.complaints().is_empty(),
            "{:?}",
            browser.complaints()
        );
        assert_eq!(browser.requests().len(), 1, "{:?}", browser.requests());
    }
}
