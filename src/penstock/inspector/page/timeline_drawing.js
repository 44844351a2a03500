/** Draws a timeline on a canvas: only what is visible, and at most one tick per pixel and row. */

import { duration, number } from "./format.js";
import { lowerBound } from "./timeline_model.js";

export const AXIS = 24;
export const ROW = 28;
const BAR = 16;
const RIGHT = 14;
/** Pixels between two symbols of a row: those in between would hide each other. */
const SPACED = 3;

export function gutter(width) {
  return width < 620 ? 96 : 156;
}

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["surface", "sunken", "text", "muted", "line", "line-strong", "accent", "accent-soft", "bad", "warn", "data-1", "data-2", "data-3", "data-6"];
  const found = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  found.kinds = { message: found["data-1"], reasoning: found["data-3"], tool: found["data-2"], other: found["data-6"], upstream: found["data-6"], response: found.text };
  found.sans = style.getPropertyValue("--sans");
  return found;
}

/** Between times and pixels. */
export class Scale {
  constructor(begin, end, width) {
    this.begin = begin;
    this.end = end;
    this.left = gutter(width);
    this.right = width - RIGHT;
    this.perPixel = (end - begin) / Math.max(1, this.right - this.left);
  }

  x(time) {
    return this.left + (time - this.begin) / this.perPixel;
  }

  time(x) {
    return this.begin + (x - this.left) * this.perPixel;
  }
}

/** Draw a frame. `view`: width, height, scroll, scale, silences, selected and hovered index. Returns what was drawn. */
export function draw(context, model, view, theme) {
  const drawn = { ticks: 0, rows: 0, bars: 0, symbols: 0 };
  const { width, height, scale } = view;
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.font = `12px ${theme.sans}`;
  drawSilences(context, view, theme);
  drawGrid(context, model, view, theme);
  const rows = model.rows;
  const first = Math.max(0, Math.floor(view.scroll / ROW));
  const last = Math.min(rows.length, Math.ceil((view.scroll + height - AXIS) / ROW));
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  for (let index = first; index < last; index += 1) {
    const top = AXIS + index * ROW - view.scroll;
    drawRow(context, model, rows[index], top, view, theme, drawn);
    drawn.rows += 1;
  }
  context.restore();
  drawCursor(context, model, view, theme);
  if (model.isRunning && model.isTimed) drawNow(context, scale.x(model.end), height, theme);
  return drawn;
}

function drawGrid(context, model, view, theme) {
  const { scale, height, width } = view;
  const step = niceStep(scale.perPixel * (width < 620 ? 84 : 120), model.isTimed);
  context.strokeStyle = theme.line;
  context.fillStyle = theme.muted;
  context.lineWidth = 1;
  context.textAlign = "left";
  for (let time = Math.ceil(scale.begin / step) * step; time <= scale.end + step / 1e6; time += step) {
    const x = Math.round(scale.x(time)) + 0.5;
    if (x > width - 4) break;
    context.beginPath();
    context.moveTo(x, AXIS - 5);
    context.lineTo(x, height);
    context.stroke();
    const label = axisLabel(time, step, model.isTimed);
    if (x + 4 + context.measureText(label).width < width - 2) context.fillText(label, x + 4, AXIS / 2 - 1);
  }
}

function niceStep(least, isTimed) {
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least);
  const step = factor * power;
  if (!isTimed) return Math.max(1, Math.round(step));
  if (step >= 30_000) return [30, 60, 120, 300, 600, 1800, 3600].map((each) => each * 1000).find((each) => each >= least) ?? step;
  return step;
}

function axisLabel(time, step, isTimed) {
  if (!isTimed) return `#${number(time)}`;
  if (time === 0) return "0";
  if (step >= 30_000) return duration(time);
  if (step >= 1000) return `${number(time / 1000)} s`;
  if (time >= 1000) return `${(time / 1000).toFixed(Math.max(0, Math.min(4, -Math.floor(Math.log10(step / 1000) + 1e-9))))} s`;
  return `${step < 1 ? time.toFixed(step < 0.1 ? 2 : 1) : Math.round(time)} ms`;
}

function drawSilences(context, view, theme) {
  const { scale, height } = view;
  context.textAlign = "center";
  for (const { begin, end } of view.silences) {
    if (end < scale.begin || begin > scale.end) continue;
    const left = Math.max(scale.left, scale.x(begin));
    const right = Math.min(scale.right, scale.x(end));
    if (right - left < 3) continue;
    hatch(context, left, AXIS, right - left, height - AXIS, theme);
  }
}

/** The words are drawn above the rows, on a ground of their own. */
function drawSilenceLabels(context, top, view, theme) {
  const { scale } = view;
  context.font = `600 11px ${theme.sans}`;
  context.textAlign = "center";
  for (const { begin, end } of view.silences) {
    const left = Math.max(scale.left, scale.x(begin));
    const right = Math.min(scale.right, scale.x(end));
    const words = right - left > 130 ? `${duration(end - begin)} of silence` : duration(end - begin);
    const width = context.measureText(words).width + 10;
    if (right - left < width + 8) continue;
    const middle = (left + right) / 2;
    context.fillStyle = theme.surface;
    context.fillRect(middle - width / 2, top + ROW / 2 - 8, width, 16);
    context.fillStyle = theme.warn;
    context.fillText(words, middle, top + ROW / 2 + 0.5);
  }
  context.font = `12px ${theme.sans}`;
}

function hatch(context, left, top, width, height, theme) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = theme.warn;
  context.globalAlpha = 0.16;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = left - height - ((left - height) % 7); x < left + width; x += 7) {
    context.moveTo(x, top + height);
    context.lineTo(x + height, top);
  }
  context.stroke();
  context.restore();
}

function drawRow(context, model, row, top, view, theme, drawn) {
  const { scale, width } = view;
  const colour = theme.kinds[row.kind];
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, top + ROW - 0.5);
  context.lineTo(width, top + ROW - 0.5);
  context.stroke();
  context.save();
  context.beginPath();
  context.rect(scale.left - 6, top, width - scale.left + 6, ROW);
  context.clip();
  for (const bar of row.bars) drawBar(context, model, row, bar, top, view, theme, drawn);
  drawTicks(context, row, top, view, colour, drawn);
  if (row === model.rows[0]) drawSilenceLabels(context, top, view, theme);
  for (const time of spaced(row.heartbeats, (at) => at, scale)) {
    drawDiamond(context, scale.x(time), top + ROW / 2, theme);
    drawn.symbols += 1;
  }
  for (const mark of spaced(row.marks, (each) => each.at, scale)) {
    drawMark(context, scale.x(mark.at), top, mark, theme);
    drawn.symbols += 1;
  }
  context.restore();
  drawLabel(context, row, top, scale, theme, colour);
}

function drawLabel(context, row, top, scale, theme, colour) {
  const middle = top + ROW / 2;
  context.fillStyle = colour;
  drawGlyph(context, row.kind, 9, middle);
  context.fillStyle = row.kind === "upstream" || row.kind === "response" ? theme.muted : theme.text;
  context.textAlign = "left";
  context.fillText(fitted(context, row.label, scale.left - 30), 20, middle + 0.5);
}

/** Each kind of row has a shape, because colour alone says nothing to many people. */
function drawGlyph(context, kind, x, y) {
  context.beginPath();
  if (kind === "message") context.rect(x - 4, y - 4, 8, 8);
  else if (kind === "reasoning") context.arc(x, y, 4, 0, 7);
  else if (kind === "tool") {
    context.moveTo(x - 4, y - 5);
    context.lineTo(x + 5, y);
    context.lineTo(x - 4, y + 5);
  } else if (kind === "upstream") {
    context.rect(x - 5, y - 4, 2, 8);
    context.rect(x - 1, y - 2, 2, 6);
    context.rect(x + 3, y - 4, 2, 8);
  } else {
    context.rect(x - 5, y - 3, 10, 2);
    context.rect(x - 5, y + 1, 10, 2);
  }
  context.fill();
}

const cuts = new Map();

function fitted(context, text, width) {
  const key = `${Math.round(width)} ${text}`;
  const known = cuts.get(key);
  if (known !== undefined) return known;
  let cut = text;
  while (cut.length > 1 && context.measureText(cut).width > width) cut = `${cut.slice(0, -2)}…`;
  if (cuts.size > 1000) cuts.clear();
  cuts.set(key, cut);
  return cut;
}

function drawBar(context, model, row, bar, top, view, theme, drawn) {
  const { scale } = view;
  const end = bar.end ?? model.end;
  if (end < scale.begin || bar.begin > scale.end) return;
  drawn.bars += 1;
  const left = Math.max(scale.left - 6, scale.x(bar.begin));
  const right = Math.min(scale.right + 20, Math.max(scale.x(end), left + 2));
  const y = top + (ROW - BAR) / 2;
  const colour = theme.kinds[row.kind];
  context.globalAlpha = row.kind === "upstream" ? 0.12 : 0.2;
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(left, y, right - left, BAR, 3);
  context.fill();
  context.globalAlpha = 1;
  if (row.kind === "upstream") {
    context.fillStyle = theme.line;
    context.fillRect(left, y + BAR - 1, right - left, 1);
    return;
  }
  context.fillStyle = colour;
  if (bar.begin >= scale.begin) context.fillRect(left, y, 2, BAR);
  if (bar.isOpen || bar.end === null) drawOpenEnd(context, right, y, colour);
  else if (bar.end <= scale.end) context.fillRect(right - 2, y, 2, BAR);
}

/** The end of an item that was never closed: a jagged edge. */
function drawOpenEnd(context, x, y, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  for (let step = 0; step <= 4; step += 1) context.lineTo(x + (step % 2 ? 3 : -1), y + (step * BAR) / 4);
  context.stroke();
}

function drawTicks(context, row, top, view, colour, drawn) {
  const { scale } = view;
  const times = row.times;
  const isUpstream = row.kind === "upstream";
  const y = top + (ROW - BAR) / 2;
  context.fillStyle = colour;
  let index = lowerBound(times, scale.begin - scale.perPixel);
  while (index < times.length && times[index] <= scale.end + scale.perPixel) {
    const pixel = Math.floor(scale.x(times[index]));
    const next = Math.max(index + 1, lowerBound(times, scale.time(pixel + 1), index));
    const count = next - index;
    const height = isUpstream ? readHeight(row.sizes, index, next) : BAR - 6 + Math.min(6, 2 * Math.log2(count));
    context.globalAlpha = Math.min(1, 0.62 + 0.1 * count);
    if (row.kind === "response") context.fillRect(pixel, y + 3, 2, BAR - 6);
    else context.fillRect(pixel, isUpstream ? y + BAR - height : y + (BAR - height) / 2, 1, height);
    drawn.ticks += 1;
    index = next;
  }
  context.globalAlpha = 1;
}

function readHeight(sizes, begin, end) {
  let sum = 0;
  for (let index = begin; index < end; index += 1) sum += sizes[index];
  return Math.min(BAR, 4 + 2.6 * Math.log10(Math.max(1, sum / 20)));
}

/** Return what is visible, without what would be drawn on top of the one before. */
function spaced(symbols, timeOf, scale) {
  const begin = scale.begin - 8 * scale.perPixel;
  const end = scale.end + 8 * scale.perPixel;
  const last = new Map();
  return symbols.filter((each) => {
    const at = timeOf(each);
    const known = last.get(each.kind);
    if (at < begin || at > end || (known !== undefined && Math.abs(at - known) < SPACED * scale.perPixel)) return false;
    last.set(each.kind, at);
    return true;
  });
}

function drawDiamond(context, x, y, theme) {
  context.fillStyle = theme.surface;
  context.strokeStyle = theme.muted;
  context.lineWidth = 1.4;
  context.beginPath();
  context.moveTo(x, y - 5);
  context.lineTo(x + 4.5, y);
  context.lineTo(x, y + 5);
  context.lineTo(x - 4.5, y);
  context.closePath();
  context.fill();
  context.stroke();
}

function drawMark(context, x, top, mark, theme) {
  const middle = top + ROW / 2;
  context.fillStyle = theme.bad;
  context.strokeStyle = theme.surface;
  context.lineWidth = 2;
  context.beginPath();
  if (mark.kind === "violation") {
    context.moveTo(x, middle - 8);
    context.lineTo(x + 8, middle + 7);
    context.lineTo(x - 8, middle + 7);
    context.closePath();
    context.stroke();
    context.fill();
    context.fillStyle = theme.surface;
    context.fillRect(x - 0.8, middle - 3, 1.6, 5.5);
    context.fillRect(x - 0.8, middle + 3.8, 1.6, 1.6);
    return;
  }
  context.arc(x, middle, 7, 0, 7);
  context.stroke();
  context.fill();
  context.strokeStyle = theme.surface;
  context.lineWidth = 1.6;
  context.beginPath();
  context.moveTo(x - 2.5, middle - 2.5);
  context.lineTo(x + 2.5, middle + 2.5);
  context.moveTo(x + 2.5, middle - 2.5);
  context.lineTo(x - 2.5, middle + 2.5);
  context.stroke();
}

function drawCursor(context, model, view, theme) {
  for (const [index, isSelected] of [[view.hovered, false], [view.selected, true]]) {
    if (index < 0 || index >= model.length) continue;
    const x = view.scale.x(model.at[index]);
    if (x < view.scale.left - 6 || x > view.scale.right + 8) continue;
    const top = AXIS + model.rows.indexOf(model.rowOf(index)) * ROW - view.scroll;
    context.strokeStyle = theme.accent;
    context.globalAlpha = isSelected ? 1 : 0.45;
    context.lineWidth = isSelected ? 1.5 : 1;
    context.beginPath();
    context.moveTo(x + 0.5, AXIS - 4);
    context.lineTo(x + 0.5, view.height);
    context.stroke();
    context.globalAlpha = 1;
    if (!isSelected || top < AXIS - ROW) continue;
    context.lineWidth = 2;
    context.strokeRect(x - 4, top + 3, 9, ROW - 6);
  }
}

function drawNow(context, x, height, theme) {
  context.fillStyle = theme.accent;
  context.fillRect(Math.round(x), AXIS - 6, 1, height);
  context.beginPath();
  context.arc(Math.round(x) + 0.5, AXIS - 6, 3, 0, 7);
  context.fill();
}
