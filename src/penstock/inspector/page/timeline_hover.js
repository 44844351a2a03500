/** What is under the pointer in a timeline, in two lines. */

import { bytes, counted, duration, number } from "./format.js";
import { line } from "./text.js";
import { AXIS, ROW } from "./timeline_drawing.js";
import { lowerBound } from "./timeline_model.js";

/** Return an event, a read, a heartbeat, a mark, an item or a silence: `index` (-1: not an event), `title`, `detail`. */
export function whatIsAt(model, { x, y, scroll, scale, silences }) {
  const row = model.rows[Math.floor((y - AXIS + scroll) / ROW)];
  if (!row || y < AXIS) return null;
  if (x < scale.left - 6) return { index: -1, title: row.label, detail: row.detail };
  const time = scale.time(x);
  const near = (at) => Math.abs(at - time) <= 6 * scale.perPixel;
  const mark = row.marks.find((each) => near(each.at));
  if (mark) return { index: mark.index ?? -1, title: mark.label, detail: when(model, mark.at) };
  const beat = row.heartbeats.find(near);
  if (beat !== undefined) return { index: -1, title: "heartbeat", detail: `${when(model, beat)} · tells the client that the turn goes on` };
  const position = nearest(row.times, time);
  if (position >= 0 && near(row.times[position])) return tick(model, row, position);
  return between(model, row, time, silences);
}

export function when(model, at) {
  return model.isTimed ? `at ${duration(at)}` : `at position ${number(at)}`;
}

export function nearest(values, value) {
  const after = lowerBound(values, value);
  if (after <= 0) return values.length ? 0 : -1;
  if (after >= values.length) return values.length - 1;
  return value - values[after - 1] <= values[after] - value ? after - 1 : after;
}

function tick(model, row, position) {
  if (row.kind === "upstream") {
    return { index: -1, title: `read of ${bytes(row.sizes[position])}`, detail: when(model, row.times[position]) };
  }
  const index = row.indices[position];
  const { title, detail } = model.describe(index);
  return { index, title, detail: `${when(model, model.at[index])} · ${detail}` };
}

function between(model, row, time, silences) {
  const silence = silences.find((each) => each.begin <= time && time <= each.end);
  const bar = row.bars.find((each) => each.begin <= time && time <= (each.end ?? model.end));
  if (silence && (row.kind === "upstream" || row === model.response || !bar)) return silenceAt(model, silence);
  if (bar?.attempt) {
    const { target, model: name, status, code } = bar.attempt;
    return { index: -1, title: line(`${target} · ${name}`, 100), detail: [status && `HTTP ${status}`, line(code, 80)].filter(Boolean).join(" · ") || "not answered" };
  }
  if (!bar) return null;
  const open = bar.isOpen ? "never closed" : bar.end === null ? "still open" : `${duration(bar.end - bar.begin)}`;
  return { index: -1, title: row.label, detail: `${row.detail} · ${open}` };
}

/** Who was silent: an upstream that sends nothing is one thing, a client that gets nothing another. */
function silenceAt(model, { begin, end }) {
  const length = duration(end - begin);
  if (!model.isUpstreamKnown) return { index: -1, title: `${length} without an event`, detail: `${duration(begin)} to ${duration(end)}` };
  const beats = model.response.heartbeats.filter((at) => begin <= at && at <= end).length;
  const client = beats ? `the client got ${counted(beats, "heartbeat")}` : model.untimedHeartbeats ? "heartbeats of this time were not kept" : "the client got no heartbeat";
  return { index: -1, title: `the upstream was silent for ${length}`, detail: `${duration(begin)} to ${duration(end)} · ${client}` };
}
