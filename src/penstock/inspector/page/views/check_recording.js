/** A recorded stream in the page: its events, and what the gateway's report says about each. */

import { EventDecoder } from "../api.js";
import { parsed } from "../text.js";

const END = "[DONE]";

/** Return the data of each frame of a file, without `[DONE]`. `format`: "sse", "ndjson" or "json". */
export function framesOf(text, format) {
  if (format === "sse") return sseFrames(text);
  if (format === "ndjson") return lineFrames(text);
  const value = parsed(text);
  const events = Array.isArray(value) ? value : [value];
  return events.filter((event) => event !== undefined).map((event) => JSON.stringify(event));
}

function sseFrames(text) {
  const frames = [];
  const decoder = new EventDecoder(({ data }) => {
    if (data.trim() !== END) frames.push(data);
  });
  decoder.feed(text);
  decoder.feed("\n\n"); // a file may be cut off before its last empty line
  return frames;
}

function lineFrames(text) {
  return text.split(/\r\n|\n|\r/).map((each) => each.trim()).filter((data) => data !== "" && data !== END);
}

/**
 * Return the turn with positions in the place of sequence numbers: in a broken stream, these may be missing, repeated or
 * out of order. A violation of the whole stream is put at its last event.
 */
export function positional(turn, violations) {
  const { events } = turn;
  const places = new Map();
  events.sequence.forEach((sequence, index) => {
    if (!places.has(sequence)) places.set(sequence, index);
  });
  const last = events.type.length - 1;
  const place = (violation) => violation.position ?? places.get(violation.sequence) ?? last;
  return {
    ...turn,
    events: { ...events, sequence: events.type.map((_, index) => index) },
    violations: violations.map((violation) => ({ ...violation, sequence: place(violation),
      isWhole: (violation.position ?? violation.sequence ?? null) === null })),
  };
}

/** Return the broken rules of each event. */
export function breaksOf(violations) {
  const breaks = new Map();
  for (const violation of violations.toSorted((one, other) => one.sequence - other.sequence)) {
    if (violation.sequence < 0) continue;
    if (!breaks.has(violation.sequence)) breaks.set(violation.sequence, []);
    breaks.get(violation.sequence).push(violation);
  }
  return breaks;
}
