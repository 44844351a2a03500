/** Numbers, times and names as people read them: the same as `penstock explain` and `penstock usage`. */

export const NOTHING = "–";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function number(value) {
  return isNumber(value) ? WHOLE.format(value) : NOTHING;
}

/** `1 turn`, `2,000 turns`. */
export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** `950`, `12.3k`, `4.56M`: at most three digits. */
export function short(value) {
  if (!isNumber(value)) return NOTHING;
  if (Math.abs(value) < 999.5) return WHOLE.format(value);
  for (const [size, unit] of [[1e3, "k"], [1e6, "M"], [1e9, "G"]]) {
    const amount = value / size;
    if (Math.abs(amount) < 999.5) return `${amount.toPrecision(3).replace(/\.0+$/, "")}${unit}`;
  }
  return `${WHOLE.format(value / 1e9)}G`;
}

/** `350 ms`, `2.10 s`, `3 min 20 s`. */
export function duration(milliseconds) {
  if (!isNumber(milliseconds) || milliseconds < 0) return NOTHING;
  const seconds = milliseconds / 1000;
  if (seconds < 0.9995) return `${milliseconds < 9.95 && milliseconds % 1 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
  if (seconds < 59.995) return `${seconds.toFixed(2)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min ${whole % 60} s`;
}

/** A time within a turn, as exact as needed to tell it from others in a span: `866.25 ms`. */
export function instant(milliseconds, span) {
  if (span >= 2000) return duration(milliseconds);
  if (span >= 20) return milliseconds >= 1000 ? `${(milliseconds / 1000).toFixed(3)} s` : `${Math.round(milliseconds)} ms`;
  return `${milliseconds.toFixed(2)} ms`;
}

/** Dollars: `$1.25`, `$0.0042`, `$0.000013`. */
export function cost(dollars) {
  if (!isNumber(dollars)) return NOTHING;
  if (dollars === 0) return "$0";
  if (dollars >= 1) return `$${dollars.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return `$${dollars.toFixed(dollars >= 0.01 ? 4 : 6)}`;
}

/** `34 kB`, `1.2 MB`; decimal, as `penstock explain`. */
export function bytes(count) {
  if (!isNumber(count)) return NOTHING;
  if (count < 999.5) return counted(Math.round(count), "byte");
  for (const [size, unit] of [[1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"]]) {
    const amount = count / size;
    if (amount < 999.5 || unit === "TB") return `${amount < 9.95 ? amount.toFixed(1) : Math.round(amount)} ${unit}`;
  }
  return NOTHING;
}

/** The same for a narrow column: `284 B`, `1.9 kB`. */
export function shortBytes(count) {
  return isNumber(count) && count < 999.5 ? `${Math.round(count)} B` : bytes(count);
}

export function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part / whole < 0.0995 ? 1 : 0)} %` : NOTHING;
}

/** The time of day, with the date if it is not today; of this computer's time zone. */
export function time(seconds, now = Date.now()) {
  if (!isNumber(seconds)) return NOTHING;
  const moment = new Date(seconds * 1000);
  const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
  if (moment.toDateString() === new Date(now).toDateString()) return clock;
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} ${clock}`;
}

/** Date, time and time zone, for titles. */
export function fullTime(seconds) {
  if (!isNumber(seconds)) return NOTHING;
  return `${new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\.\d+Z$/, "")} UTC`;
}

/** What each outcome of a turn is called, its mark and its tone: never by colour alone. */
const STATUSES = {
  completed: ["completed", "✓", "good"],
  incomplete: ["incomplete", "◐", "warn"],
  failed: ["failed", "✕", "bad"],
  refused: ["refused", "⊘", "bad"],
  cancelled: ["cancelled", "■", "muted"],
  running: ["running", "●", "live"],
  in_progress: ["running", "●", "live"],
  queued: ["queued", "○", "live"],
};

export function status(name) {
  const [label, mark, tone] = STATUSES[name] ?? [name || "unknown", "?", "muted"];
  return { label, mark, tone };
}

/** Item types as words. */
const ITEMS = {
  message: "message",
  reasoning: "reasoning",
  function_call: "tool call",
  custom_tool_call: "tool call",
  function_call_output: "tool output",
};

export function itemName(type) {
  return ITEMS[type] ?? String(type || "item").replaceAll("_", " ");
}

/** `openai-python 3.49.0` of a whole user agent. */
export function clientName(userAgent) {
  if (/^Mozilla\//.test(userAgent)) return "browser";
  const words = String(userAgent || "").split(" ")[0].replace("/", " ");
  return words.length > 40 ? `${words.slice(0, 39)}…` : words;
}

/** A long id with its middle left out. */
export function shortId(id, length = 18) {
  const text = String(id);
  return text.length <= length ? text : `${text.slice(0, length - 7)}…${text.slice(-6)}`;
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function two(value) {
  return String(value).padStart(2, "0");
}
