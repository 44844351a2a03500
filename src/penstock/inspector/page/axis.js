/** Where the ticks of a chart's axes are, and what is written next to them. */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

const TIME_STEPS = [MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY];

const DURATION_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 1_800_000, 3_600_000];

/** Return the values of about `count` ticks from 0 to at least `most`, at round numbers. */
export function valueTicks(most, count, { isDuration = false, isWhole = false } = {}) {
  if (!(most > 0)) return [0, 1];
  let step = roundStep(most / count, isDuration);
  if (isWhole) step = Math.max(1, Math.round(step));
  const number = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: number + 1 }, (_, index) => tidy(index * step));
}

const POWERS = Array.from({ length: 16 }, (_, index) => 10 ** (index - 6));
const ONE_THREE = POWERS.flatMap((power) => [power, 3 * power]);
const LOGARITHMIC_STEPS = {
  "": [POWERS, ONE_THREE, POWERS.flatMap((power) => [power, 2 * power, 5 * power])],
  duration: [
    [0.1, 1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000],
    [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 60_000, 180_000, 600_000, 1_800_000, 3_600_000, 36_000_000],
    [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000,
      300_000, 600_000, 1_800_000, 3_600_000, 36_000_000],
  ],
};

/** Return the ticks of a logarithmic axis from below `least` to above `most`: as many as fit into `count`. */
export function logarithmicTicks(least, most, count, { isDuration = false } = {}) {
  const choices = LOGARITHMIC_STEPS[isDuration ? "duration" : ""].map((steps) => {
    const first = Math.max(0, steps.findLastIndex((value) => value < least));
    const last = steps.findIndex((value) => value > most);
    return steps.slice(first, Math.max(first + 2, (last < 0 ? steps.length : last) + 1));
  });
  return (choices.findLast((ticks) => ticks.length <= count + 1) ?? choices[0]).map(tidy);
}

function roundStep(rough, isDuration) {
  if (isDuration && rough >= 1) {
    const step = DURATION_STEPS.find((each) => each >= rough);
    if (step) return step;
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 2.5, 5, 10].find((each) => each * power >= rough - power * 1e-9) ?? 10;
  return factor * power;
}

function tidy(value) {
  return Number(value.toPrecision(12));
}

/** Return at most `count` moments (seconds since 1970) from `since` to `until`, at round local times. */
export function timeTicks(since, until, count) {
  const span = Math.max(until - since, 1);
  const step = TIME_STEPS.find((each) => span / each <= count) ?? TIME_STEPS.at(-1);
  const offset = new Date(since * 1000).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((since - offset) / step) * step + offset; at <= until; at += step) ticks.push(at);
  return ticks;
}

/** Return the moments of `count` at most of these days, which are days of UTC. */
export function dayTicks(moments, count) {
  const every = Math.max(1, Math.ceil(moments.length / count));
  return moments.filter((_, index) => (moments.length - 1 - index) % every === 0);
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const DATE_UTC = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const WEEKDAY_UTC = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });

/** Return what is written at a tick: the time of day, or the date at midnight. */
export function timeLabel(at) {
  const moment = new Date(at * 1000);
  return moment.getHours() === 0 && moment.getMinutes() === 0 ? DATE.format(moment) : CLOCK.format(moment);
}

export function dayLabel(at) {
  return DATE_UTC.format(new Date(at * 1000));
}

/** Return the name of one bucket, for the read-out and the table. */
export function bucketName(at, bucket) {
  const moment = new Date(at * 1000);
  if (bucket === "day") return `${WEEKDAY_UTC.format(moment)} (UTC)`;
  const end = new Date((at + (bucket === "hour" ? HOUR : MINUTE)) * 1000);
  return `${DATE.format(moment)}, ${CLOCK.format(moment)}–${CLOCK.format(end)}`;
}

export const BUCKET_SECONDS = { minute: MINUTE, hour: HOUR, day: DAY };
