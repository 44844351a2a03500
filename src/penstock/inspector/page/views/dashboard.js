/** The dashboard: requests, tokens, cost, errors and times. Every number is a sum of the ledger's records. */

import { api } from "../api.js";
import { BUCKET_SECONDS } from "../axis.js";
import { BAD, rankedBars, sparkline, timeChart } from "../charts.js";
import { announce, errorNotice, h, notice, replace, skeleton } from "../dom.js";
import { cost, counted, duration, number, percent, short, time } from "../format.js";
import { setQuery, to } from "../route.js";
import { gatewayNow } from "../session.js";
import { line, marked } from "../text.js";
import { byMinute } from "./dashboard_minutes.js";
import { costOf, groupTable } from "./dashboard_table.js";

const HOUR = 3600;
const DAY = 86400;
const REFRESH = 30_000;
const MOST_GROUPS = 5;

const RANGES = {
  "1h": { label: "1 h", name: "the last hour", seconds: HOUR, bucket: "minute" },
  "24h": { label: "24 h", name: "the last 24 hours", seconds: DAY, bucket: "hour" },
  "7d": { label: "7 d", name: "the last 7 days", seconds: 7 * DAY, bucket: "hour" },
  "30d": { label: "30 d", name: "the last 30 days", seconds: 30 * DAY, bucket: "day" },
};

const DIMENSIONS = { model: "model", key: "client key", target: "target" };

export async function show(main, { query, signal }) {
  const choice = { range: Object.hasOwn(RANGES, query.range ?? "") ? query.range : "24h",
    by: Object.hasOwn(DIMENSIONS, query.by ?? "") ? query.by : "model" };
  const body = h("div", { class: "dashboard" }, skeleton(10));
  const asOf = h("span", { class: "as-of" });
  let loading = null;

  const load = async ({ isQuiet = false } = {}) => {
    loading?.abort();
    loading = new AbortController();
    const { signal: current } = loading;
    try {
      const data = await fetchData(choice, current);
      if (current.aborted) return;
      replace(body, draw(data, choice));
      replace(asOf, `as of ${time(data.until)}`);
      if (!isQuiet) announce(`${RANGES[choice.range].name}: ${counted(data.totals.turns, "request")}`);
    } catch (error) {
      if (!current.aborted && !signal.aborted) replace(body, errorNotice(error, () => load()));
    }
  };
  const choose = (name, value) => {
    choice[name] = value;
    setQuery({ range: choice.range, by: choice.by === "model" ? "" : choice.by });
    load();
  };

  replace(main,
    h("div", { class: "page-head" }, h("h1", null, "Dashboard"), asOf),
    h("div", { class: "toolbar" },
      segments("Time", "range", Object.entries(RANGES).map(([value, { label, name }]) => [value, label, name]),
        choice.range, (value) => choose("range", value)),
      segments("Per", "by", Object.entries(DIMENSIONS).map(([value, label]) => [value, label, label]), choice.by,
        (value) => choose("by", value)),
      h("button", { type: "button", onclick: () => load() }, "Refresh")),
    body);
  if (!query.range) choice.range = await shortestRange(choice, signal);
  main.querySelector(`input[name="dashboard-range"][value="${choice.range}"]`).checked = true;
  await load({ isQuiet: true });

  const timer = setInterval(() => {
    if (!document.hidden && !isInUse(body)) load({ isQuiet: true });
  }, REFRESH);
  return () => {
    clearInterval(timer);
    loading?.abort();
  };
}

/** Nothing changes under the pointer, in an open table, or where the focus is. */
function isInUse(body) {
  return body.contains(document.activeElement) || body.querySelector("details[open], .chart-plot:hover") !== null
    || body.querySelector(".chart-key[aria-pressed=false]") !== null;
}

/** Return a group of radio buttons that look like one control: `options`: `[[value, label, name]]`. */
function segments(label, name, options, chosen, onchange) {
  return h("fieldset", { class: "segments" }, h("legend", null, label), options.map(([value, text, full]) => h("label", null,
    h("input", { type: "radio", name: `dashboard-${name}`, value, checked: value === chosen, "aria-label": full,
      onchange: () => onchange(value) }),
    h("span", null, text))));
}

/* Data */

/** Where the gateway has been in use for less than an hour, a day would be one bar. */
async function shortestRange({ by }, signal) {
  const until = Math.ceil(gatewayNow());
  try {
    const totals = (length) => api.get("inspector/api/dashboard", { since: until - length, until, by, bucket: "hour" }, signal);
    const [hour, day] = await Promise.all([totals(HOUR), totals(DAY)]);
    return hour.totals?.turns > 0 && hour.totals.turns === day.totals?.turns ? "1h" : "24h";
  } catch {
    return "24h"; // the next request shows the error
  }
}

async function fetchData({ range, by }, signal) {
  const { seconds, bucket } = RANGES[range];
  const step = BUCKET_SECONDS[bucket];
  const until = gatewayNow();
  const since = Math.floor(until / step) * step + step - seconds;
  const summed = { since, until: Math.ceil(until), by, bucket: bucket === "minute" ? "hour" : bucket };
  const [data, minutes] = await Promise.all([
    api.get("inspector/api/dashboard", summed, signal),
    bucket === "minute" ? byMinute({ since, until, by }, signal) : null,
  ]);
  const times = starts(since, until, bucket);
  const overTime = minutes ?? data;
  const latency = overTime.latency_over_time;
  return { ...data, since, until, bucket, times, note: minutes?.note ?? "", total: data.groups,
    groups: merged(overTime.groups.map((group) => filled(group, overTime.times, times))),
    latency_over_time: filledLatency(latency, starts(since, until, latency.bucket)) };
}

/** Return when the minutes, hours or days begin, in seconds since 1970. */
function starts(since, until, bucket) {
  const step = BUCKET_SECONDS[bucket];
  const first = Math.floor(since / step) * step;
  return Array.from({ length: Math.floor((until - first) / step) + 1 }, (_, index) => first + index * step);
}

const SUMS = ["turns", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost"];

/** Buckets without turns are left out by the gateway: they are zero. */
function filled(group, names, times) {
  const places = new Map(names.map((name, index) => [seconds(name), index]));
  const result = { name: group.name };
  for (const field of SUMS) result[field] = times.map((at) => (places.has(at) ? group[field][places.get(at)] : 0));
  return result;
}

function filledLatency(latency, times) {
  const places = new Map(latency.times.map((name, index) => [seconds(name), index]));
  const pick = (values) => times.map((at) => (places.has(at) ? values[places.get(at)] ?? null : null));
  const result = { times, bucket: latency.bucket };
  for (const kind of ["first_output", "duration"]) {
    result[kind] = Object.fromEntries(["p50", "p90", "p99"].map((name) => [name, pick(latency[kind]?.[name] ?? [])]));
  }
  return result;
}

/** Names of buckets are hours or days of UTC: `2026-11-18T14:00Z`, `2026-11-18`. */
function seconds(name) {
  return typeof name === "number" ? name : Date.parse(name) / 1000;
}

/** The largest groups, and one for all others. */
function merged(groups) {
  const ordered = groups.toSorted((one, other) => sum(other.turns) - sum(one.turns));
  if (ordered.length <= MOST_GROUPS + 1) return ordered;
  const rest = ordered.splice(MOST_GROUPS);
  const others = { name: `${rest.length} others` };
  for (const field of SUMS) others[field] = together(rest, field);
  return [...ordered, others];
}

/** Return the sums of a field over all groups, for each bucket. */
function together(groups, field) {
  return groups[0][field].map((_, index) => groups.reduce((total, group) => total + group[field][index], 0));
}

function sum(values) {
  return values.reduce((total, value) => total + (value ?? 0), 0);
}

/* Drawing */

function draw(data, { range, by }) {
  const { totals } = data;
  if (!totals?.turns) {
    return notice(`No turn has ended in ${RANGES[range].name}`,
      h("p", null, "Send a request in the ", h("a", { href: "#/playground" }, "playground"), ", ",
        h("a", { href: "#/setup" }, "connect a client"), ", or choose a longer time. Turns that are running now are in ",
        h("a", { href: "#/turns" }, "Turns"), "."));
  }
  return [
    tiles(data),
    data.note ? h("p", { class: "help" }, data.note) : null,
    h("div", { class: "charts" }, requests(data, by), errors(data), firstOutput(data), durations(data), tokens(data),
      costs(data, by)),
    groupTable(data, DIMENSIONS[by]),
  ];
}

function tiles({ totals, groups, latency: { overall: all }, latency_over_time: latency }) {
  const overTime = (field) => together(groups, field);
  const mark = totals.estimated ? "~" : "";
  return h("dl", { class: "tiles" },
    tile("Requests", number(totals.turns), `${number(totals.failed)} failed (${percent(totals.failed, totals.turns)})`,
      overTime("turns"), totals.failed > 0 ? "bad" : ""),
    tile("Input tokens", `${mark}${short(totals.input_tokens)}`,
      `${percent(totals.cached_tokens, totals.input_tokens)} from a cache`, overTime("input_tokens"), "",
      number(totals.input_tokens)),
    tile("Output tokens", `${mark}${short(totals.output_tokens)}`, `${short(totals.reasoning_tokens)} of them reasoning`,
      overTime("output_tokens"), "", number(totals.output_tokens)),
    tile("Cost", costOf(totals),
      totals.unpriced ? `without ${counted(totals.unpriced, "request")}: no price is known` : "all prices are known",
      overTime("cost")),
    all?.first_output ? tile("First output, median", duration(all.first_output.p50),
      `9 of 10 within ${duration(all.first_output.p90)}`, latency.first_output.p50) : null,
    all?.duration ? tile("Duration, median", duration(all.duration.p50), `9 of 10 within ${duration(all.duration.p90)}`,
      latency.duration.p50) : null);
}

function tile(name, value, detail, values, tone = "", exact = "") {
  return h("div", { class: "tile panel" }, h("dt", null, name),
    h("dd", { class: "tile-value", title: exact || null }, value),
      h("dd", { class: `tile-detail ${tone ? `is-${tone}` : ""}` }, detail),
    h("dd", { class: "tile-line", "aria-hidden": "true" }, sparkline(values)));
}

const nameOf = (group) => line(group.name || "(none)", 60);

function requests({ times, bucket, groups, totals }, by) {
  const failed = together(groups, "failed");
  const apart = { name: "failed", values: failed, total: sum(failed), look: BAD };
  return timeChart({ title: "Requests", summary: `per ${DIMENSIONS[by]}${totals.failed ? ", failed ones apart" : ""}`, kind: "bars", times, bucket, format: short,
    isWhole: true, height: totals.failed ? 250 : 180,
    series: [...(totals.failed ? [apart] : []), ...groups.map((group, look) => {
      const values = group.turns.map((turns, at) => turns - group.failed[at]);
      return { name: nameOf(group), values, total: sum(values), look };
    })],
    note: totals.failed ? `${counted(totals.failed, "request")} failed or ${totals.failed === 1 ? "was" : "were"} refused: see the causes.` : "" });
}

const CAUSES = 8;

function errors({ errors: causes, totals, times, bucket, groups }) {
  const rows = causes.toSorted((one, other) => other.turns - one.turns).slice(0, CAUSES).map(({ code, turns }) => ({
    name: h("a", { href: to("turns", "", "", { search: code }) }, marked(code || "(no code)")),
    value: turns, text: number(turns),
  }));
  const failed = together(groups, "failed");
  return rankedBars({ title: "Errors by cause", rows, empty: "No request failed." },
    totals.failed ? timeChart({ title: "Failed requests", kind: "bars", times, bucket, format: short, isWhole: true,
      height: 110, className: "",
      series: [{ name: "failed", values: failed, look: BAD }] }) : null);
}

const PERCENTILES = [["p50", "median"], ["p90", "9 of 10"], ["p99", "99 of 100"]];

function percentiles(title, values, { times, bucket }) {
  return timeChart({ title, summary: bucket === "day" ? "within this time, per day" : "within this time", kind: "lines",
    times, bucket, format: duration, scale: "log", unit: "duration",
    series: PERCENTILES.map(([field, name]) => ({ name, values: values[field] })),
      empty: "No turn with output has ended in this time." });
}

function firstOutput(data) {
  return percentiles("Time to first output", data.latency_over_time.first_output, data.latency_over_time);
}

function durations(data) {
  return percentiles("Duration", data.latency_over_time.duration, data.latency_over_time);
}

function tokens({ times, bucket, groups }) {
  const all = Object.fromEntries(SUMS.map((field) => [field, together(groups, field)]));
  const minus = (one, other) => one.map((value, index) => Math.max(0, value - other[index]));
  const series = [["input from a cache", all.cached_tokens], ["other input", minus(all.input_tokens, all.cached_tokens)],
    ["reasoning", all.reasoning_tokens], ["other output", minus(all.output_tokens, all.reasoning_tokens)]];
  return timeChart({ title: "Tokens", kind: "bars", times, bucket, format: short,
    series: series.map(([name, values]) => ({ name, values, total: sum(values) })) });
}

function dollars(value) {
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: value ? 2 : 0, maximumFractionDigits: 6 })}`;
}

function costs({ times, bucket, groups }, by) {
  const priced = groups.filter((group) => sum(group.cost) > 0);
  return timeChart({ title: "Cost", summary: `per ${DIMENSIONS[by]}`, kind: "bars", times, bucket, format: cost,
    tickFormat: dollars,
    series: priced.map((group) => ({ name: nameOf(group), values: group.cost, total: sum(group.cost) })),
    empty: "Nothing with a known price. The demo model is free; prices of other models are in the list of models, or in penstock.toml." });
}
