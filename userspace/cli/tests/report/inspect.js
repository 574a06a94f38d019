// SPDX-License-Identifier: MIT OR Apache-2.0
// What the test needs to know of the page, as it is shown.
(() => {
  const text = (element) => element.textContent.trim().replace(/\s+/g, " ");
  const rect = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom };
  };
  const outside = (inner, outer) =>
    inner.left < outer.left - 1 || inner.top < outer.top - 1 ||
    inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
  const overlap = (a, b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const width = document.documentElement.clientWidth;

  // Tables: rows with the bucket that they are of.
  const tables = [...document.querySelectorAll("#comparison table")].map((table) => ({
    section: table.dataset.section,
    columns: [...table.querySelectorAll("thead .number")].map(text),
    rows: [...table.querySelectorAll("tbody")].flatMap((body) => {
      const bucket = body.querySelector(".bucket");
      return [...body.rows].map((row) => ({
        bucket: bucket ? bucket.firstChild.textContent : "",
        figure: text(row.querySelector("th:not(.bucket)")),
        unit: row.querySelector(".unit") ? text(row.querySelector(".unit")) : "",
        cells: [...row.querySelectorAll("td.number")].map(text),
      }));
    }),
  }));

  // Figures: who is in a legend, and what a panel has.
  const line = (polyline) => {
    const style = getComputedStyle(polyline);
    const points = polyline.points;
    const xs = [...points].map((point) => point.x);
    const ys = [...points].map((point) => point.y);
    return {
      colour: polyline.getAttribute("stroke"),
      shown: style.stroke,
      dashes: style.strokeDasharray,
      points: points.length,
      width: Math.max(...xs) - Math.min(...xs),
      height: Math.max(...ys) - Math.min(...ys),
    };
  };
  const figures = [...document.querySelectorAll("figure")].map((figure) => ({
    id: figure.id,
    caption: text(figure.querySelector("figcaption")),
    legend: [...figure.querySelectorAll(".legend li")].map((item) => ({
      name: text(item),
      ...line(item.querySelector("polyline")),
    })),
    panels: [...figure.querySelectorAll(".panel")].map((panel) => {
      const svg = panel.querySelector("svg");
      const scale = svg.getScreenCTM().a;
      const labels = [...svg.querySelectorAll("text")];
      const boxes = labels.map(rect);
      const crossed = [];
      boxes.forEach((box, place) => {
        for (let other = 0; other < place; other += 1) {
          if (overlap(box, boxes[other])) {
            crossed.push(`${text(labels[other])} / ${text(labels[place])}`);
          }
        }
      });
      return {
        title: text(panel.querySelector("p")),
        box: rect(svg),
        labels: labels.map(text),
        letters: Math.min(...labels.map((it) => scale * parseFloat(getComputedStyle(it).fontSize))),
        outside: labels.filter((it, place) => outside(boxes[place], rect(svg))).map(text),
        crossed,
        lines: [...svg.querySelectorAll("polyline")]
          .filter((it) => it.points.length > 2).map(line),
        areas: [...svg.querySelectorAll("polygon")].map((it) => it.getAttribute("fill")),
        strays: [...svg.querySelectorAll("polyline, polygon")]
          .filter((it) => outside(rect(it), rect(svg))).length,
      };
    }),
  }));

  // Whatever is wider than the page, unless it is in something that scrolls.
  const overflowing = [...document.body.querySelectorAll("*")]
    .filter((it) => !it.closest(".scroll, svg"))
    .filter((it) => rect(it).right > width + 1 || it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0)
    .map((it) => `${it.tagName} ${text(it).slice(0, 60)}`);

  // Contrast as WCAG 2 has it.
  const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = channels(colour).map((it) => {
      const share = it / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const page = getComputedStyle(document.body).backgroundColor;
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = getComputedStyle(it).backgroundColor;
      if (!/, 0\)$/.test(colour)) return colour;
    }
    return page;
  };
  const written = [...document.body.querySelectorAll("p, td, th, li, figcaption, h1, h2, pre, small, .invalid")];
  const faint = written
    .filter((it) => contrast(getComputedStyle(it).color, behind(it)) < 4.5)
    .concat([...document.querySelectorAll("svg text")]
      .filter((it) => contrast(getComputedStyle(it).fill, page) < 4.5))
    .map(text)
    .concat(figures.flatMap((it) => it.panels).flatMap((it) => it.lines)
      .filter((it) => contrast(it.shown, page) < 3).map((it) => `line ${it.shown}`));

  const alarm = document.querySelector(".alarm");
  return {
    title: document.title,
    page,
    tables,
    figures,
    overflowing,
    wider: document.documentElement.scrollWidth - width,
    faint,
    alarm: alarm ? text(alarm) : "",
    ran: [...document.querySelectorAll("#ran tr")].map((row) => [...row.cells].map(text).join(": ")),
    commands: document.querySelector("#reproduce pre").textContent.trim().split("\n"),
    validity: text(document.querySelector("#validity")),
  };
})()
