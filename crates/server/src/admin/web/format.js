// Numbers, sizes and times as text, and the steps of axes.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = n =>
  n >= 1e9 ? (n / 1e9).toFixed(1) + " G" : n >= 1e6 ? (n / 1e6).toFixed(1) + " M" : n >= 1e4 ? (n / 1e3).toFixed(1) + " k"
    : Number.isInteger(n) ? String(n) : n < 10 ? n.toFixed(1) : String(Math.round(n));

export const whole = n => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u202f");

export function bytes(n) {
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) {
    n /= 1024;
    unit++;
  }
  return (unit && n < 100 && !Number.isInteger(n) ? n.toFixed(1) : String(Math.round(n))) + " " + UNITS[unit];
}

export const percent = share => (100 * share).toFixed(share > 0 && share < 1 ? 1 : 0) + " %";

export const milliseconds = ms =>
  ms < 1 ? Math.round(ms * 1000) + " µs" : ms < 1000 ? (ms < 100 ? ms.toFixed(1).replace(/\.0$/, "") : Math.round(ms)) + " ms"
    : (ms / 1000).toFixed(2).replace(/\.?0+$/, "") + " s";

export const duration = s =>
  s < 60 ? Math.round(s) + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 172800 ? (s / 3600).toFixed(1) + " h"
    : Math.floor(s / 86400) + " days";

const two = n => String(n).padStart(2, "0");

export function clock(ms, withSeconds) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}` + (withSeconds ? `:${two(at.getSeconds())}` : "");
}

/** The smallest of 1, 2, 5, 10, … times `base` that divides `top` into at most `most` steps. */
function niceStep(top, most, base) {
  let step = base;
  for (let factor = 1; ; factor *= 10) {
    for (const times of [1, 2, 5]) {
      step = base * factor * times;
      if (top / step <= most) return step;
    }
  }
}

/** The ticks of an axis from 0 to at least `top`. */
export function ticks(top, most, unit) {
  let base = unit === "count" ? 1 : unit === "ms" ? 0.01 : 1;
  if (unit === "share") return [0, 0.25, 0.5, 0.75, 1];
  if (unit === "bytes") while (base * 1024 <= top / 2) base *= 1024;
  // Below a unit of sizes, binary steps are the round ones.
  if (unit === "bytes" && top / base > 500) {
    const step = [128, 256, 512].map(times => times * base).find(step => top / step <= most) ?? 512 * base;
    return upTo(top, step);
  }
  return upTo(top, niceStep(top, most, base));
}

function upTo(top, step) {
  const steps = Math.max(1, Math.ceil(top / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, n) => n * step);
}

/** Moments between two, at a round distance. */
export function timeTicks(from, to, most) {
  const steps = [30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 14400, 21600, 43200].map(s => s * 1000);
  const step = steps.find(step => (to - from) / step <= most) ?? steps.at(-1);
  const offset = new Date(from).getTimezoneOffset() * 60000;
  const first = Math.ceil((from - offset) / step) * step + offset;
  const found = [];
  for (let at = first; at <= to; at += step) found.push(at);
  return found;
}

export const show = (unit, value) =>
  value === null || value === undefined ? "–"
    : unit === "bytes" ? bytes(value) : unit === "ms" ? milliseconds(value) : unit === "share" ? percent(value) : count(value);
