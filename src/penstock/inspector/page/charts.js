/** Charts in SVG: stacked bars, stacked areas and lines over time, ranked bars, and sparklines.
 *
 * Nothing depends on colour alone: fills have patterns, lines have dashes and marks, and every chart has its numbers as a
 * table. */

import { h, replace, svg } from "./dom.js";
import { BUCKET_SECONDS, bucketName, dayLabel, dayTicks, logarithmicTicks, timeLabel, timeTicks, valueTicks } from "./axis.js";

const MARGIN = { top: 10, right: 12, bottom: 24, left: 52 };
const TICK_WIDTH = 60;
const MOST_SERIES = 7;
/** Marks on a line with more points are on some of them only. */
const MOST_MARKS = 30;
/** The look of a series of failures: a colour and a pattern of its own. */
export const BAD = 6;
const MOST_POINTS = 42;
/** Of a sparkline. */

let charts = 0;

/**
 * Return a chart over time.
 *
 * `kind`: "bars" and "areas" are stacked; "lines" are not.
 * `times`: the start of each bucket, in seconds since 1970; `bucket`: "minute", "hour" or "day".
 * `series`: `[{name, values, total}]`, with null where there is no value; at most eight.
 * `format`: value → text; `scale`: "linear" or "log"; `unit`: "duration" or "" selects the round numbers.
 * `tickFormat`: value → text at the axis, if it differs. `className`: "panel", or "" within another chart's panel.
 */
export function timeChart(options) {
  return new TimeChart(options).element;
}

class TimeChart {
  constructor({ title, note = "", summary = "", kind, times, bucket, series, format, scale = "linear", unit = "", height = 180,
    isWhole = false, empty = "Nothing in this time.", tickFormat = (value) => withoutZeros(format(value)),
      className = "panel" }) {
    Object.assign(this, { title, kind, times, bucket, format, tickFormat, scale, unit, height, isWhole });
    this.id = `chart-${++charts}`;
    this.series = series.slice(0, MOST_SERIES).map((each, index) => ({ ...each, index: each.look ?? index, isHidden: false }));
    this.selected = -1;
    this.plot = h("div", {
      class: "chart-plot", tabindex: "0", role: "slider", "aria-label": `${title}: move through time`, "aria-valuemin": "0",
      "aria-valuemax": String(Math.max(0, times.length - 1)), "aria-valuenow": "0", "aria-valuetext": "",
      onpointermove: (event) => this.#point(event), onpointerdown: (event) => this.#point(event),
      onpointerleave: () => this.#select(-1), onblur: () => this.#select(-1), onkeydown: (event) => this.#press(event),
      onfocus: () => this.selected < 0 && this.plot.matches(":focus-visible") && this.#select(this.times.length - 1),
    });
    this.readout = h("div", { class: "chart-readout", "aria-hidden": "true" });
    this.readout.hidden = true;
    const hasValues = this.series.some((each) => each.values.some((value) => value !== null && value > 0));
    const body = hasValues
      ? [h("div", { class: "chart-area" }, this.plot, this.readout), this.#legend(), this.#table()]
      : [h("p", { class: "chart-empty" }, empty)];
    this.element = h("figure", { class: `chart ${className}`, "aria-labelledby": `${this.id}-title` },
      h("figcaption", { class: "chart-caption" },
        h(className === "panel" ? "h2" : "h3", { class: "chart-title", id: `${this.id}-title` }, title),
          summary ? h("span", { class: "chart-summary" }, summary) : null,
        note ? h("p", { class: "chart-note" }, note) : null),
      body);
    if (hasValues) this.#watchWidth();
  }

  #watchWidth() {
    this.width = 0;
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width > 0 && width !== this.width) {
        this.width = width;
        this.#draw();
      }
    }).observe(this.plot);
  }

  /* Drawing */

  get #shown() {
    return this.series.filter((each) => !each.isHidden);
  }

  #draw() {
    this.guide = svg("line", { class: "chart-guide", y1: MARGIN.top, y2: this.height - MARGIN.bottom });
    this.guide.classList.add("is-hidden");
    this.#measure();
    const drawing = this.kind === "bars" ? this.#bars() : this.kind === "areas" ? this.#areas() : this.#lines();
    replace(this.plot, svg("svg", { width: this.width, height: this.height, class: "chart-svg", "aria-hidden": "true" },
      this.#patterns(), this.#valueAxis(), this.#timeAxis(), this.guide, drawing));
  }

  #measure() {
    const shown = this.#shown;
    const values = shown.flatMap((each) => each.values.filter((value) => value !== null));
    const count = Math.max(2, Math.floor((this.height - MARGIN.top - MARGIN.bottom) / 30));
    if (this.scale === "log") {
      const positive = values.filter((value) => value > 0);
      this.ticks = positive.length
        ? logarithmicTicks(Math.min(...positive), Math.max(...positive), count, { isDuration: this.unit === "duration" })
        : [1, 10];
    } else {
      const sums = this.times.map((_, at) => shown.reduce((sum, each) => sum + (each.values[at] ?? 0), 0));
      const most = this.kind === "lines" ? Math.max(0, ...values) : Math.max(0, ...sums);
      this.ticks = valueTicks(most, count, { isDuration: this.unit === "duration", isWhole: this.isWhole });
    }
    const step = BUCKET_SECONDS[this.bucket];
    this.since = this.times[0];
    this.until = this.times.at(-1) + step;
    this.step = ((this.width - MARGIN.left - MARGIN.right) * step) / (this.until - this.since);
  }

  #x(at) {
    return MARGIN.left + ((at - this.since) / (this.until - this.since)) * (this.width - MARGIN.left - MARGIN.right);
  }

  #middle(index) {
    return this.#x(this.times[index] + BUCKET_SECONDS[this.bucket] / 2);
  }

  #y(value) {
    const [low, high] = [this.ticks[0], this.ticks.at(-1)];
    const part = this.scale === "log"
      ? (Math.log(Math.max(value, low)) - Math.log(low)) / (Math.log(high) - Math.log(low))
      : (value - low) / (high - low);
    return this.height - MARGIN.bottom - part * (this.height - MARGIN.top - MARGIN.bottom);
  }

  #valueAxis() {
    return svg("g", null, this.ticks.map((tick) => {
      const y = Math.round(this.#y(tick)) + 0.5;
      const label = svg("text", { class: "chart-tick", x: MARGIN.left - 8, y: y + 3.5, "text-anchor": "end" });
      label.textContent = this.tickFormat(tick);
      return [svg("line", { class: "chart-grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }), label];
    }).flat());
  }

  #timeAxis() {
    const count = Math.max(2, Math.floor((this.width - MARGIN.left) / TICK_WIDTH));
    const isDaily = this.bucket === "day";
    const ticks = isDaily ? dayTicks(this.times, count) : timeTicks(this.since, this.until, count);
    return svg("g", null, ticks.map((at) => {
      const x = isDaily ? this.#x(at + BUCKET_SECONDS.day / 2) : this.#x(at);
      if (x < MARGIN.left - 1 || x > this.width - 20) return [];
      const label = svg("text", { class: "chart-tick", x, y: this.height - 6, "text-anchor": "middle" });
      label.textContent = isDaily ? dayLabel(at) : timeLabel(at);
      const y = this.height - MARGIN.bottom;
      return [svg("line", { class: "chart-axis", x1: x, x2: x, y1: y, y2: y + 4 }), label];
    }).flat());
  }

  #patterns() {
    return svg("defs", null, this.#shown.map(({ index }) => pattern(`${this.id}-fill-${index}`, index)));
  }

  #fill(index) {
    return `url(#${this.id}-fill-${index})`;
  }

  #bars() {
    const gap = this.step > 10 ? 2 : this.step > 4 ? 1 : 0;
    const width = Math.max(1, Math.min(48, this.step - gap));
    return svg("g", null, this.times.map((_, at) => {
      let sum = 0;
      const x = this.#middle(at) - width / 2;
      return this.#shown.map(({ index, values }) => {
        const value = values[at] ?? 0;
        if (value <= 0) return null;
        const [top, bottom] = [this.#y(sum + value), this.#y(sum)];
        sum += value;
        return svg("rect", { x, y: top, width, height: Math.max(0.75, bottom - top), fill: this.#fill(index) });
      });
    }).flat());
  }

  #areas() {
    const sums = this.times.map(() => 0);
    return svg("g", null, this.#shown.map(({ index, values }) => {
      const below = sums.map((sum, at) => [this.#middle(at), this.#y(sum)]);
      values.forEach((value, at) => { sums[at] += value ?? 0; });
      const above = sums.map((sum, at) => [this.#middle(at), this.#y(sum)]);
      return [
        svg("path", { d: `${path(above)}L${path(below.reverse()).slice(1)}Z`, fill: this.#fill(index), class: "chart-stacked" }),
        svg("path", { d: path(above), class: `chart-line series-${index}` }),
      ];
    }).flat());
  }

  #lines() {
    return svg("g", null, this.#shown.map(({ index, values }) => {
      const points = values.map((value, at) => (value === null ? null : [this.#middle(at), this.#y(value)]));
      const every = Math.ceil(points.filter(Boolean).length / MOST_MARKS);
      let count = 0;
      const single = points.filter((point, at) => point && (count++ % every === 0 || (!points[at - 1] && !points[at + 1])));
      return [
        ...runs(points).map((run) => svg("path", { d: path(run), class: `chart-line dashes-${index} series-${index}` })),
        ...single.map(([x, y]) => marker(index, x, y)),
      ];
    }).flat());
  }

  /* Legend and table */

  #legend() {
    return h("ul", { class: "chart-legend", "aria-label": "Show or hide" }, this.series.map((each) => {
      const button = h("button", { type: "button", class: "chart-key", "aria-pressed": "true", onclick: () => {
        if (!each.isHidden && this.#shown.length === 1) return;
        each.isHidden = !each.isHidden;
        button.setAttribute("aria-pressed", String(!each.isHidden));
        this.#draw();
      } }, this.#swatch(each.index), h("span", { class: "chart-name" }, each.name),
      each.total === undefined ? null : h("span", { class: "chart-total" }, this.format(each.total)));
      return h("li", null, button);
    }));
  }

  #swatch(index) {
    return swatch(index, this.kind === "lines" ? "line" : "fill");
  }

  #table() {
    const details = h("details", { class: "chart-table", ontoggle: () => {
      if (!details.open || details.querySelector("table")) return;
      details.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${this.title} as a table` },
        h("table", null,
          h("thead", null, h("tr", null, h("th", { scope: "col" }, "Time"),
            this.series.map((each) => h("th", { scope: "col", class: "number" }, each.name)))),
          h("tbody", null, this.times.map((at, row) => (this.series.some((each) => each.values[row])
            ? h("tr", null, h("th", { scope: "row" }, bucketName(at, this.bucket)),
              this.series.map((each) => h("td", { class: "number" },
                each.values[row] === null ? "–" : this.format(each.values[row]))))
            : null)))))); 
    } }, h("summary", null, "Numbers as a table"));
    return details;
  }

  /* The read-out */

  #point(event) {
    const box = this.plot.getBoundingClientRect();
    const x = event.clientX - box.left - MARGIN.left;
    this.#select(Math.max(0, Math.min(this.times.length - 1, Math.floor(x / this.step))));
  }

  #press(event) {
    const last = this.times.length - 1;
    const from = this.selected < 0 ? last : this.selected;
    const to = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, Home: 0, End: last,
      PageUp: from - 10, PageDown: from + 10 }[event.key];
    if (event.key === "Escape") this.#select(-1);
    if (to === undefined) return;
    event.preventDefault();
    this.#select(Math.max(0, Math.min(last, to)));
  }

  #select(index) {
    if (!this.guide || index === this.selected) return;
    this.selected = index;
    this.readout.hidden = index < 0;
    this.guide.classList.toggle("is-hidden", index < 0);
    if (index < 0) return;
    const x = this.#middle(index);
    this.guide.setAttribute("x1", x);
    this.guide.setAttribute("x2", x);
    const rows = this.#shown.map((each) => ({ ...each,
      text: each.values[index] === null ? "–" : this.format(each.values[index] ?? 0) }));
    const name = bucketName(this.times[index], this.bucket);
    this.plot.setAttribute("aria-valuenow", String(index));
    this.plot.setAttribute("aria-valuetext", `${name}: ${rows.map((row) => `${row.name} ${row.text}`).join(", ")}`);
    replace(this.readout, h("div", { class: "chart-moment" }, name),
      (this.kind === "lines" ? rows : rows.toReversed()).map((row) => h("div", { class: "chart-row" }, this.#swatch(row.index),
        h("span", { class: "chart-name" }, row.name), h("span", { class: "chart-value" }, row.text))));
    const isLeft = x > this.width / 2;
    this.readout.style.setProperty("left", isLeft ? "auto" : `${x + 12}px`);
    this.readout.style.setProperty("right", isLeft ? `${this.width - x + 12}px` : "auto");
  }
}

/** `10.00 s` → `10 s`, `1.50M` → `1.5M`, `2 min 0 s` → `2 min`. */
function withoutZeros(text) {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, (_, kept) => (kept === "." ? "" : kept)).replace(/(min|h) 0 \w+$/, "$1");
}

function path(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

/** Return the pieces of a line between its gaps. */
function runs(points) {
  const found = [];
  for (const [index, point] of points.entries()) {
    if (!point) continue;
    if (index === 0 || !points[index - 1]) found.push([]);
    found.at(-1).push(point);
  }
  return found.filter((run) => run.length > 1);
}

/* Marks: each series has its own pattern and its own shape */

function pattern(id, index) {
  const element = svg("pattern", { id, width: 8, height: 8, class: `series-${index}` },
    svg("rect", { class: "series-fill", width: 8, height: 8 }), patternMark(index));
  element.setAttribute("patternUnits", "userSpaceOnUse");
  return element;
}

function patternMark(index) {
  const line = (d) => svg("path", { d, class: "series-mark" });
  return [
    () => [],
    () => [line("M-2,2L2,-2M0,8L8,0M6,10L10,6")],
    () => [svg("circle", { cx: 4, cy: 4, r: 1.4, class: "series-dot" })],
    () => [line("M0,4L8,4")],
    () => [line("M-2,6L2,10M0,0L8,8M6,-2L10,2")],
    () => [line("M4,0L4,8")],
    () => [line("M0,0L8,8M8,0L0,8")],
  ][index % MOST_SERIES]();
}

function marker(index, x, y) {
  const shapes = [
    () => svg("circle", { cx: x, cy: y, r: 2.6 }),
    () => svg("rect", { x: x - 2.4, y: y - 2.4, width: 4.8, height: 4.8 }),
    () => svg("path", { d: `M${x},${y - 3.4}L${x + 3.2},${y + 2.4}L${x - 3.2},${y + 2.4}Z` }),
    () => svg("path", { d: `M${x},${y - 3.4}L${x + 3.4},${y}L${x},${y + 3.4}L${x - 3.4},${y}Z` }),
  ];
  const shape = shapes[index % shapes.length]();
  shape.setAttribute("class", `chart-marker series-${index}`);
  return shape;
}

/** Return a sample of a series: of its fill, or of its line with its marker. */
export function swatch(index, kind = "fill") {
  if (kind === "line") {
    return svg("svg", { class: "swatch swatch-line", width: 22, height: 10, "aria-hidden": "true" },
      svg("path", { d: "M1,5L21,5", class: `chart-line dashes-${index} series-${index}` }), marker(index, 11, 5));
  }
  const id = `swatch-${++charts}`;
  return svg("svg", { class: `swatch series-${index}`, width: 12, height: 12, "aria-hidden": "true" },
    svg("defs", null, pattern(id, index)), svg("rect", { width: 12, height: 12, fill: `url(#${id})` }));
}

/** Return rows with a bar each, longest first: `rows`: `[{name, value, text}]`, where `name` is text or a node. */
export function rankedBars({ title, rows, empty }, ...more) {
  const id = `chart-${++charts}`;
  const most = Math.max(1, ...rows.map((row) => row.value));
  return h("figure", { class: "chart panel", "aria-labelledby": id },
    h("figcaption", { class: "chart-caption" }, h("h2", { class: "chart-title", id }, title)),
    rows.length
      ? h("ol", { class: "ranked" }, rows.map((row) => {
        const bar = h("span", { class: "ranked-bar", "aria-hidden": "true" });
        bar.style.setProperty("inline-size", `${(100 * row.value) / most}%`);
        return h("li", null, h("span", { class: "ranked-name" }, row.name), h("span", { class: "ranked-value" }, row.text),
          h("span", { class: "ranked-track" }, bar));
      }))
      : h("p", { class: "chart-empty" }, empty),
    more);
}

/** Return the means of neighbours, so that there are at most `most` values. */
function fewer(values, most) {
  const size = Math.ceil(values.length / most);
  if (size <= 1) return values;
  return Array.from({ length: Math.ceil(values.length / size) }, (_, index) => {
    const found = values.slice(index * size, (index + 1) * size).filter((value) => value !== null);
    return found.length ? found.reduce((sum, value) => sum + value, 0) / found.length : null;
  });
}

/** Return a small line without axes, for a number next to it. */
export function sparkline(values, index = 0) {
  values = fewer(values, MOST_POINTS);
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const [width, height] = [120, 28];
  const points = values.map((value, at) => (value === null ? null
    : [values.length > 1 ? 1 + (at * (width - 2)) / (values.length - 1) : width / 2,
      height - 2 - ((height - 4) * value) / most]));
  return svg("svg", { class: `sparkline series-${index}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none",
    "aria-hidden": "true" },
    runs(points).map((run) => [
      svg("path", { d: `${path(run)}L${run.at(-1)[0]},${height}L${run[0][0]},${height}Z`, class: "sparkline-area" }),
      svg("path", { d: path(run), class: "chart-line" }),
    ]).flat());
}
