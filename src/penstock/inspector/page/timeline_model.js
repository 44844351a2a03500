/** What a timeline shows: rows of ticks and bars in columns of numbers, so that 50,000 events are little work. */

import { clientName, itemName, number } from "./format.js";
import { line } from "./text.js";

/** Milliseconds. Shorter pauses are normal, as in `penstock explain`. */
const SILENCE = 500;

export const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed", "response.cancelled"]);

/** These say nothing about the upstream: the gateway sends them when a response begins, and as heartbeats. */
const ABOUT_RESPONSE = new Set(["response.created", "response.queued", "response.in_progress"]);

/** Return the first index whose value is not below `value`. */
export function lowerBound(values, value, begin = 0) {
  let end = values.length;
  while (begin < end) {
    const middle = (begin + end) >> 1;
    if (values[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

/** A row: `times` are those of its ticks in order, `indices` the events they are (none for reads). */
class Row {
  constructor(kind, label, detail = "") {
    this.kind = kind;
    this.label = label;
    this.detail = detail;
    this.times = [];
    this.indices = [];
    this.bars = [];
    this.heartbeats = [];
    this.marks = [];
  }
}

export class TimelineModel {
  /** `turn`: the columns of `inspector/api/turns/{id}`; `timed: false` if times are positions. */
  constructor(turn) {
    this.isTimed = turn.timed !== false;
    this.isRunning = Boolean(turn.is_running);
    this.types = [...(turn.events?.types ?? [])];
    this.typeNumbers = new Map(this.types.map((name, index) => [name, index]));
    this.at = [];
    this.type = [];
    this.lane = [];
    this.size = [];
    this.sequence = [];
    this.attempts = turn.attempts ?? [];
    this.violations = turn.violations ?? [];
    this.upstream = null;
    this.response = new Row("response", "response", "what the client received for the whole response");
    this.lanes = [];
    this.laneOfOutput = new Map();
    this.now = 0;
    this.#addUpstream(turn);
    for (const lane of turn.lanes ?? []) this.#addLane(lane);
    this.response.heartbeats = [...(turn.heartbeats?.at_ms ?? [])].sort((a, b) => a - b);
    this.heartbeatCount = turn.heartbeats?.count ?? turn.record?.heartbeats ?? 0;
    this.addColumns(turn.events);
    this.#closeLanes(turn);
    for (const each of this.violations) this.#addViolation(each);
  }

  get length() {
    return this.at.length;
  }

  get rows() {
    return [...(this.upstream ? [this.upstream] : []), this.response, ...this.lanes];
  }

  /** The time of the last thing that happened. */
  get end() {
    const last = (values) => (values.length ? values[values.length - 1] : 0);
    const attempts = this.attempts.map((each) => each.ended_ms ?? each.answered_ms ?? each.sent_ms ?? 0);
    const reads = this.upstream ? last(this.upstream.times) : 0;
    return Math.max(1, last(this.at), reads, last(this.response.heartbeats), this.now, ...attempts);
  }

  typeOf(index) {
    return this.types[this.type[index]] ?? "event";
  }

  indexOf(sequence) {
    const index = lowerBound(this.sequence, sequence);
    return this.sequence[index] === sequence ? index : -1;
  }

  rowOf(index) {
    return this.lanes[this.lane[index]] ?? this.response;
  }

  /** Add columns of events, which follow those that are there. `lane` is a position in the turn's lanes. */
  addColumns(events) {
    if (!events) return;
    const names = events.types.map((name) => this.#typeNumber(name));
    for (let index = 0; index < events.at_ms.length; index += 1) {
      this.#add(events.sequence[index], events.at_ms[index], names[events.type[index]], events.lane[index], events.size[index]);
    }
  }

  /** Add one event that has just arrived. */
  addEvent(event, at, size) {
    const sequence = event.sequence_number ?? this.length;
    if (this.length && sequence <= this.sequence[this.length - 1]) return -1;
    const lane = this.#laneOfEvent(event, at);
    const type = String(event.type ?? "event");
    this.#add(sequence, at, this.#typeNumber(type), lane, size);
    if (type === "response.output_item.done" && lane >= 0) this.lanes[lane].bars[0].end = at;
    if (TERMINAL.has(type)) {
      this.isRunning = false;
      for (const row of this.lanes) for (const bar of row.bars) bar.end ??= at;
    }
    return this.length - 1;
  }

  setTraffic(turn) {
    this.attempts = turn.attempts ?? [];
    this.#addUpstream(turn);
  }

  /** Heartbeats whose times are not kept: those that are comments of the stream. */
  get untimedHeartbeats() {
    return this.isRunning ? 0 : Math.max(0, this.heartbeatCount - this.response.heartbeats.length);
  }

  addHeartbeat(at) {
    this.response.heartbeats.push(at);
  }

  /** Whether pauses are the upstream's. Otherwise its reads are unknown, and only events show pauses. */
  get isUpstreamKnown() {
    return Boolean(this.upstream?.times.length);
  }

  /** Pauses of more than half a second in what the upstream sent, or in the events if its reads are unknown. */
  silences() {
    if (!this.isTimed) return [];
    if (this.isRunning && this.upstream) return this.#silencesUntilNow();
    const isUpstream = this.isUpstreamKnown;
    const times = isUpstream ? this.upstream.times : this.at;
    const sent = isUpstream ? this.#requests() : [];
    return pauses([...times, isUpstream ? this.#upstreamEnd() : this.end], sent);
  }

  /** Reads become known seconds after the events that they caused. After the last known one, only what follows the
   * newest event of the output is silence; if neither is known, nothing is. */
  #silencesUntilNow() {
    const reads = this.upstream.times;
    const found = reads.length ? pauses(reads, this.#requests()) : [];
    let last = this.length - 1;
    while (last >= 0 && ABOUT_RESPONSE.has(this.typeOf(last))) last -= 1;
    const newest = Math.max(reads.at(-1) ?? -1, last >= 0 ? this.at[last] : -1);
    return newest < 0 ? found : [...found, ...pauses([newest, this.end], [newest, ...this.#requests()])];
  }

  #requests() {
    return this.attempts.map((each) => each.sent_ms).filter((each) => typeof each === "number").sort((a, b) => a - b);
  }

  /** When the last upstream ended its answer: what follows is not its silence. */
  #upstreamEnd() {
    const ends = this.attempts.map((each) => each.ended_ms);
    return ends.includes(null) ? this.end : Math.max(...ends);
  }

  /** Describe an event in a line, for hovering and for screen readers. */
  describe(index) {
    const row = this.rowOf(index);
    const where = row === this.response ? "" : ` · ${row.label}`;
    return { title: `#${this.sequence[index]} ${line(this.typeOf(index), 80)}`, detail: `${number(this.size[index])} bytes${where}` };
  }

  #typeNumber(name) {
    const found = this.typeNumbers.get(name);
    if (found !== undefined) return found;
    this.typeNumbers.set(name, this.types.length);
    return this.types.push(name) - 1;
  }

  #add(sequence, at, type, lane, size) {
    const index = this.length;
    const time = index ? Math.max(at, this.at[index - 1]) : at; // clocks may be set back
    this.sequence.push(sequence);
    this.at.push(time);
    this.type.push(type);
    this.lane.push(lane);
    this.size.push(size);
    const row = this.lanes[lane] ?? this.response;
    row.times.push(time);
    row.indices.push(index);
    const name = this.types[type];
    if (name === "response.failed") row.marks.push({ at: time, index, label: name, kind: "failed" });
  }

  #addUpstream(turn) {
    const reads = turn.reads ?? { at_ms: [], size: [] };
    if (!this.attempts.length && !reads.at_ms.length) return;
    const row = new Row("upstream", "upstream reads", "what the gateway read from the upstream");
    row.times = [...reads.at_ms];
    row.sizes = [...reads.size];
    for (const each of this.attempts) {
      const begin = each.sent_ms ?? 0;
      row.bars.push({ begin, end: each.ended_ms ?? null, answered: each.answered_ms, attempt: each, label: targetLabel(each) });
      if (each.code) row.marks.push({ at: each.ended_ms ?? begin, label: line(each.code, 80), kind: "failed" });
    }
    this.upstream = row;
  }

  #addLane(lane) {
    const name = lane.name ? `${line(lane.name, 60)}()` : itemName(lane.type);
    const row = new Row(laneKind(lane.type), name, `item ${lane.output_index}: ${itemName(lane.type)}`);
    row.lane = lane;
    row.bars.push({ begin: lane.added_ms ?? 0, end: lane.done_ms ?? null });
    this.laneOfOutput.set(lane.output_index, this.lanes.push(row) - 1);
  }

  #laneOfEvent(event, at) {
    const output = event.output_index;
    if (!Number.isInteger(output)) return -1;
    const known = this.laneOfOutput.get(output);
    if (known !== undefined) return known;
    const item = event.item ?? {};
    this.#addLane({ output_index: output, item_id: item.id ?? event.item_id ?? "", type: item.type ?? "item", name: item.name ?? "", added_ms: at });
    return this.lanes.length - 1;
  }

  /** An item that was never closed ends with the response, open. */
  #closeLanes(turn) {
    for (const row of this.lanes) {
      for (const bar of row.bars) {
        if (bar.end !== null || turn.is_running) continue;
        bar.end = this.end;
        bar.isOpen = true;
      }
    }
  }

  #addViolation(violation) {
    const isAtEnd = violation.sequence === null || violation.rule.startsWith("terminal.");
    const index = violation.sequence === null ? this.length - 1 : this.indexOf(violation.sequence);
    if (index < 0) return;
    (isAtEnd ? this.response : this.rowOf(index)).marks.push({ at: this.at[index], index, label: `broken rule: ${line(violation.rule, 80)}`, kind: "violation" });
  }
}

/** The pauses between these times. A request to an upstream begins a new one. */
function pauses(times, requests) {
  const found = [];
  let last = requests[0] ?? 0;
  let request = 0;
  for (const end of times) {
    let begin = last;
    while (request < requests.length && requests[request] < end) begin = Math.max(begin, requests[request++]);
    if (end - begin >= SILENCE) found.push({ begin, end });
    last = end;
  }
  return found;
}

function laneKind(type) {
  if (type === "message" || type === "reasoning") return type;
  return type === "compaction" ? "other" : "tool";
}

function targetLabel(attempt) {
  const status = attempt.status ? ` ${attempt.status}` : "";
  return `${clientName(attempt.target)}${status}`;
}
