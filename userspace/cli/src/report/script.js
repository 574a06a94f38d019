// SPDX-License-Identifier: MIT OR Apache-2.0
"use strict";
(() => {
  // The commands of an experiment's runs, each followed by a line with the hash of its results. On
  // a page of several experiments each is an article.
  const commands = (point) => {
    const runs = (point.closest("article") ?? document).querySelector(".runs");
    const lines = (runs?.textContent ?? "").split("\n");
    return (point.dataset.runs ?? "").split(",").filter(Boolean)
      .flatMap((place) => lines.slice(2 * place, 2 * place + 2)).join("\n");
  };
  const add = (to, name, text = "", type = "") => {
    const element = document.createElement(name);
    element.textContent = text;
    element.className = type;
    to.append(element);
    return element;
  };

  const card = add(document.body, "div");
  card.id = "card";
  card.hidden = true;
  let shown = null;
  let kept = false;

  const hide = () => {
    shown?.classList.remove("shown");
    card.hidden = true;
    shown = null;
    kept = false;
  };
  const copy = async (text, said, from) => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      // Not every browser lets a local file write to the clipboard.
      getSelection().selectAllChildren(from);
      said.textContent = document.execCommand("copy") ? "Copied." : "Selected: copy it with Ctrl+C.";
    }
  };
  const show = (point, keep) => {
    hide();
    shown = point;
    kept = keep;
    point.classList.add("shown");
    card.textContent = "";
    const [name, ...says] = point.says.split("\n");
    add(card, "strong", name);
    for (const line of says) add(card, "p", line);
    const text = commands(point);
    if (text) {
      const from = add(card, "pre", text);
      if (keep) {
        const button = add(card, "button", "Copy commands");
        const said = add(card, "span", "", "quiet");
        said.setAttribute("role", "status");
        button.addEventListener("click", () => copy(text, said, from));
      }
    }
    if (keep) {
      add(card, "button", "Close").addEventListener("click", () => close());
    } else {
      add(card, "p", "Click, tap or press Enter to keep this open.", "quiet");
    }
    card.hidden = false;
    // Below the point, or above it if there is no space; always within the page.
    const box = (point.querySelector("circle") ?? point).getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = card;
    const room = document.documentElement.clientWidth - width - 8;
    const below = box.bottom + 10 + height <= innerHeight || box.top - 10 < height;
    card.style.left = `${scrollX + Math.max(8, Math.min(box.left - 20, room))}px`;
    card.style.top = `${scrollY + (below ? box.bottom + 10 : box.top - 10 - height)}px`;
  };
  const close = () => {
    const point = shown;
    // Focus would show it again.
    point?.focus({ preventScroll: true });
    hide();
  };

  for (const point of document.querySelectorAll(".point")) {
    const title = point.querySelector("title");
    point.says = title.textContent;
    // The card says it, in place of the browser's own tooltip.
    title.remove();
    point.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse" && !kept) show(point, false);
    });
    // Scrolling to a point that has the focus moves others away from the mouse.
    point.addEventListener("pointerleave", () => {
      if (!kept && shown === point && document.activeElement !== point) hide();
    });
    point.addEventListener("click", () => show(point, true));
    point.closest("[role=img]")?.setAttribute("role", "group");
    // The tables have the figures of all other pictures, without hundreds of stops for the Tab key.
    if (!point.closest(".tradeoff")) continue;
    point.setAttribute("role", "button");
    point.setAttribute("tabindex", "0");
    point.setAttribute("aria-label", point.says.replaceAll("\n", "; "));
    point.addEventListener("focus", () => { if (!kept) show(point, false); });
    point.addEventListener("blur", () => { if (!kept && shown === point) hide(); });
    point.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      show(point, true);
      card.querySelector("button").focus({ preventScroll: true });
    });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape" && shown) close(); });
  addEventListener("pointerdown", (event) => {
    if (!event.target.closest("#card, .point")) hide();
  });

  // One of several choices at a time.
  for (const figure of document.querySelectorAll(".drawn")) {
    const choices = [...figure.querySelectorAll(".choice")];
    if (choices.length < 2) continue;
    const set = document.createElement("fieldset");
    figure.querySelector("h2").after(set);
    choices.forEach((choice, place) => {
      const label = add(set, "label");
      const radio = add(label, "input");
      radio.type = "radio";
      radio.name = figure.id;
      label.append(` ${choice.dataset.name}`);
      choice.querySelector("h3").hidden = true;
      const choose = () => choices.forEach((it) => { it.hidden = it !== choice; });
      radio.addEventListener("change", () => { hide(); choose(); });
      if (place === 0) {
        radio.checked = true;
        choose();
      }
    });
  }
})();
