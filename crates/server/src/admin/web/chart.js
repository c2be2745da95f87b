// Charts over time, with axes, a legend of values, a cursor for pointer and keyboard, and the values as a table.

import { drawing, element, setText } from "./elements.js";
import { clock, show, ticks, timeTicks } from "./format.js";

const HEIGHT = 190;
const MARGIN = { left: 66, right: 14, top: 8, bottom: 24 };
const TABLE_ROWS = 30;

let lastId = 0;

export class TimeChart {
  /**
   * `series` are `{ name, kind, of }`: the class that colours it, and the value of a sample, or null. `unit` is
   * `bytes`, `count`, `ms` or `share`; `per` is what follows it, such as `/s`. `limit` gives a line across, or null.
   */
  constructor(figure, { title, note, unit, per = "", series, stacked = false, limit }) {
    Object.assign(this, { figure, title, unit, per, series, stacked, limit });
    this.samples = [];
    this.chosen = null;
    const id = `chart-${++lastId}`;

    this.svg = drawing("svg", {
      class: "chart", role: "slider", tabindex: 0, "aria-labelledby": id, "aria-valuemin": 0, "aria-orientation": "horizontal",
    });
    this.legend = element("ul", { class: "legend" });
    this.values = series.map(({ name, kind }) => {
      const value = element("b");
      this.legend.append(element("li", {}, element("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), `${name} `, value));
      return value;
    });
    this.moment = element("li", { class: "soft" });
    this.legend.append(this.moment);

    const head = ["Time", ...series.map(({ name }) => name)].map(name => element("th", { scope: "col" }, name));
    this.body = element("tbody");
    this.table = element("details", {}, element("summary", {}, "Values"), element("div", { class: "scroll" },
      element("table", {}, element("thead", {}, element("tr", {}, ...head)), this.body)));
    this.table.addEventListener("toggle", () => this.showTable());

    figure.replaceChildren(
      element("figcaption", { id }, element("strong", {}, title), " ", element("span", { class: "soft" }, note ?? "")),
      this.svg, this.legend, this.table);

    this.svg.addEventListener("pointermove", event => this.choose(this.nearest(event)));
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", event => this.move(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /** Shows the samples of the last `span` milliseconds, which are `every` milliseconds apart. */
  update(samples, every, span) {
    Object.assign(this, { samples, every, span });
    if (this.chosen !== null && this.chosen >= samples.length) this.chosen = null;
    this.draw();
    this.showTable();
  }

  value({ of }, sample) {
    const value = sample ? of(sample) : null;
    return Number.isFinite(value) ? value : null;
  }

  text(value) {
    return value === null ? "–" : show(this.unit, value) + this.per;
  }

  draw() {
    const width = Math.round(this.svg.clientWidth);
    // Hidden.
    if (!width || !this.span) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("height", HEIGHT);

    const to = this.samples.at(-1)?.at_ms ?? Date.now();
    const from = to - this.span;
    const right = width - MARGIN.right;
    const bottom = HEIGHT - MARGIN.bottom;
    const lines = this.heights();
    const limit = this.limit?.() ?? null;
    const highest = Math.max(limit ?? 0, ...lines.flat().map(([, upper]) => upper ?? 0));
    const least = { bytes: 1024, ms: 0.1 }[this.unit] ?? 1;
    const steps = ticks(Math.max(least, highest), 4, this.unit);
    const top = steps.at(-1);
    const x = at => MARGIN.left + (at - from) / this.span * (right - MARGIN.left);
    const y = value => bottom - value / top * (bottom - MARGIN.top);
    this.x = x;

    const axes = drawing("g", { class: "axes", "aria-hidden": "true" });
    for (const step of steps) {
      axes.append(
        drawing("line", { x1: MARGIN.left, x2: right, y1: y(step), y2: y(step) }),
        drawing("text", { x: MARGIN.left - 8, y: y(step) + 4, "text-anchor": "end" }, show(this.unit, step).replace(".0 %", " %") + this.per));
    }
    for (const at of timeTicks(from, to, Math.max(2, Math.floor(width / 110)))) {
      axes.append(
        drawing("line", { class: "tick", x1: x(at), x2: x(at), y1: bottom, y2: bottom + 4 }),
        drawing("text", { x: Math.min(x(at), right - 14), y: HEIGHT - 6, "text-anchor": "middle" }, clock(at, false)));
    }

    const curves = this.series.map(({ kind }, n) => this.curve(lines[n], kind, x, y));
    if (limit !== null) {
      curves.push(drawing("line", { class: "limit", x1: MARGIN.left, x2: right, y1: y(limit), y2: y(limit) }));
    }
    this.cursor = drawing("line", { class: "cursor", y1: MARGIN.top, y2: bottom });
    this.svg.replaceChildren(axes, ...curves, this.cursor);
    if (!this.samples.length) {
      this.svg.append(drawing("text", { class: "nothing", x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "no samples yet"));
    }
    this.choose(this.chosen);
  }

  /** Returns the lower and upper height of each sample, series by series. */
  heights() {
    const base = this.samples.map(() => 0);
    return this.series.map(series => this.samples.map((sample, n) => {
      const value = this.value(series, sample);
      if (!this.stacked) return [0, value];
      const lower = base[n];
      base[n] += value ?? 0;
      return [lower, base[n]];
    }));
  }

  curve(line, kind, x, y) {
    const pieces = [];
    let piece = [];
    line.forEach(([lower, upper], n) => {
      const { at_ms: at } = this.samples[n];
      const isGap = n > 0 && at - this.samples[n - 1].at_ms > 2.5 * this.every;
      if ((isGap || upper === null) && piece.length) {
        pieces.push(piece);
        piece = [];
      }
      if (upper !== null) piece.push([x(at).toFixed(1), y(upper).toFixed(1), y(lower).toFixed(1)]);
    });
    if (piece.length) pieces.push(piece);

    // A value without neighbours is a dot: a line of no length with round ends.
    const path = this.stacked
      ? pieces.map(piece => "M" + piece.map(([at, upper]) => `${at} ${upper}`).join("L")
          + "L" + piece.toReversed().map(([at, , lower]) => `${at} ${lower}`).join("L") + "Z").join("")
      : pieces.map(piece => "M" + (piece.length > 1 ? piece : [piece[0], piece[0]]).map(([at, upper]) => `${at} ${upper}`).join("L")).join("");
    return drawing("path", { class: `${this.stacked ? "area" : "line"} ${kind}`, d: path, "aria-hidden": "true" });
  }

  nearest(event) {
    if (!this.samples.length) return null;
    const box = this.svg.getBoundingClientRect();
    const at = event.clientX - box.left;
    let best = 0;
    this.samples.forEach(({ at_ms: ms }, n) => {
      if (Math.abs(this.x(ms) - at) < Math.abs(this.x(this.samples[best].at_ms) - at)) best = n;
    });
    return best;
  }

  move(event) {
    const last = this.samples.length - 1;
    const at = this.chosen ?? last;
    const steps = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 30, PageUp: at + 30, Home: 0, End: last };
    if (!(event.key in steps) || last < 0) return;
    event.preventDefault();
    this.choose(Math.min(last, Math.max(0, steps[event.key])));
  }

  /** Shows the values of a sample, or of the last one. */
  choose(chosen) {
    this.chosen = chosen;
    const last = this.samples.length - 1;
    const sample = this.samples[chosen ?? last];
    const texts = this.series.map(series => this.text(this.value(series, sample)));
    texts.forEach((text, n) => setText(this.values[n], text));
    setText(this.moment, sample ? (chosen === null ? "now" : `at ${clock(sample.at_ms, true)}`) : "");

    this.svg.setAttribute("aria-valuemax", Math.max(0, last));
    this.svg.setAttribute("aria-valuenow", Math.max(0, chosen ?? last));
    const said = this.series.map(({ name }, n) => `${name} ${texts[n]}`).join(", ");
    this.svg.setAttribute("aria-valuetext", sample ? `${clock(sample.at_ms, true)}: ${said}` : "no samples yet");
    if (!this.cursor) return;
    this.cursor.style.display = sample && chosen !== null ? "" : "none";
    if (sample) {
      this.cursor.setAttribute("x1", this.x(sample.at_ms));
      this.cursor.setAttribute("x2", this.x(sample.at_ms));
    }
  }

  showTable() {
    if (!this.table.open) return;
    const rows = this.samples.slice(-TABLE_ROWS).reverse().map(sample => element("tr", {},
      element("th", { scope: "row" }, clock(sample.at_ms, true)),
      ...this.series.map(series => element("td", { class: "n" }, this.text(this.value(series, sample))))));
    this.body.replaceChildren(...rows);
  }
}
