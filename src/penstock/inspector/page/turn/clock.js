/** One clock for a turn: 0 is the moment at which the gateway received the request, as in the ledger's durations. */

/** Return a turn of which every time counts from its request. The API counts from the first thing in the turn's log. */
export function fromRequest(turn) {
  const received = turn.request_at ?? turn.record?.started_at ?? null;
  if (received === null || !(received < turn.begin)) return turn;
  const shift = (turn.begin - received) * 1000;
  const later = (at) => (typeof at === "number" ? at + shift : at);
  const all = (times) => (times ?? []).map(later);
  return {
    ...turn,
    begin: received,
    lanes: turn.lanes.map((lane) => ({ ...lane, added_ms: later(lane.added_ms), done_ms: later(lane.done_ms) })),
    events: { ...turn.events, at_ms: all(turn.events.at_ms) },
    reads: { ...turn.reads, at_ms: all(turn.reads.at_ms) },
    attempts: turn.attempts.map((each) => ({
      ...each, sent_ms: later(each.sent_ms), answered_ms: later(each.answered_ms), ended_ms: later(each.ended_ms),
    })),
    heartbeats: { ...turn.heartbeats, at_ms: all(turn.heartbeats?.at_ms) },
    steps: turn.steps.map((each) => ({ ...each, at: each.at + shift / 1000 })),
  };
}
