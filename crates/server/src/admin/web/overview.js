// The overview: figures of now, and charts over time.

import { TimeChart } from "./chart.js";
import { byId, setText, showRows } from "./elements.js";
import { bytes, count, milliseconds, percent } from "./format.js";

const rate = of => sample => of(sample) / sample.seconds;
const SOURCES = [
  ["Memory", "memory", "memory"], ["Disk", "disk", "disk"], ["Peers", "peer", "peer"], ["Origin", "origin", "origin"],
  ["Passed through", "through", "passed_through"],
];

/** Series of the counts by source under `name`. */
const bySource = name => SOURCES.map(([title, kind, source]) => ({ name: title, kind, of: rate(sample => sample[name][source]) }));

const quantiles = name => [
  { name: "Median", kind: "memory", of: sample => sample[name]?.p50_ms ?? null },
  { name: "90 of 100", kind: "disk second", of: sample => sample[name]?.p90_ms ?? null },
  { name: "99 of 100", kind: "origin third", of: sample => sample[name]?.p99_ms ?? null },
];

function hitRatio({ bytes: by }) {
  const all = by.memory + by.disk + by.peer + by.origin + by.passed_through;
  return all ? (by.memory + by.disk) / all : null;
}

/** The sum of something over samples, per second. */
function perSecond(samples, of) {
  const seconds = samples.reduce((sum, sample) => sum + sample.seconds, 0);
  return seconds ? samples.reduce((sum, sample) => sum + of(sample), 0) / seconds : 0;
}

/** The mean of a quantile, weighted by requests. */
function meanLatency(samples, name) {
  const answered = samples.filter(sample => sample.latency);
  const requests = answered.reduce((sum, sample) => sum + sample.requests, 0);
  return requests ? answered.reduce((sum, sample) => sum + sample.latency[name] * sample.requests, 0) / requests : null;
}

export class Overview {
  constructor(node) {
    this.node = node;
    const chart = (id, options) => new TimeChart(byId(id), options);
    this.charts = [
      chart("chart-bytes", { title: "Bytes read by source", note: "per second", unit: "bytes", per: "/s", stacked: true, series: bySource("bytes") }),
      chart("chart-reads", { title: "Reads by source", note: "pieces from memory and disk, requests to others, per second", unit: "count", per: "/s", stacked: true, series: bySource("reads") }),
      chart("chart-requests", { title: "Requests answered", note: "by the S3 door, per second", unit: "count", per: "/s", series: [
        { name: "Requests", kind: "memory", of: rate(sample => sample.requests) },
        { name: "Failed", kind: "origin second", of: rate(sample => sample.errors) }] }),
      chart("chart-ratio", { title: "Hit ratio", note: "of bytes read, from memory or disk", unit: "share", series: [
        { name: "Hits", kind: "memory", of: hitRatio }] }),
      chart("chart-latency", { title: "Latency", note: "until an answer of the S3 door was ready", unit: "ms", series: quantiles("latency") }),
      chart("chart-origin", { title: "Latency of the origins", note: "until the first byte of an answer", unit: "ms", series: quantiles("origin_latency") }),
    ];
  }

  show() {
    const { stats, lately, history } = this.node;
    const { requests } = stats;
    const now = lately.slice(-5);
    setText("ratio", percent(stats.hit_ratio));
    setText("rate", count(perSecond(now, sample => sample.requests)));
    setText("requests", `${count(requests.requests)} in all, ${count(requests.errors)} failed, ${count(requests.in_flight)} under way, ${count(requests.connections)} connections`);
    setText("flow", bytes(perSecond(now, sample => sample.bytes_out + sample.flight_bytes)));
    setText("sent", `${bytes(requests.bytes_out)} by S3, ${bytes(stats.flight.bytes)} by Flight`);
    const [median, slow] = ["p50_ms", "p99_ms"].map(name => meanLatency(lately, name));
    setText("latency", median === null ? "–" : `${milliseconds(median)}, ${milliseconds(slow)}`);

    this.charts.forEach(chart => chart.update(...history));
    showRows(byId("operations"), requests.operations, operation => operation.operation, operation => [
      { text: operation.operation, head: true },
      { text: count(operation.requests), kind: "n" },
      { text: count(Object.entries(operation.codes).reduce((sum, [code, n]) => code >= 500 ? sum + n : sum, 0)), kind: "n" },
      { text: milliseconds(operation.p50_ms), kind: "n" },
      { text: milliseconds(operation.p99_ms), kind: "n" },
      { text: bytes(operation.bytes_out), kind: "n" },
    ], "no requests yet");
  }
}
