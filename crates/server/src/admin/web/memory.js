// Memory and disk, by use, against what was configured.

import { TimeChart } from "./chart.js";
import { byId, element, setText, showBar, showRows } from "./elements.js";
import { bytes, count, percent } from "./format.js";

const USES = {
  pages: ["Pages", "Bytes of objects as they are at the origin: resident, being fetched, or on their way to a client or to disk"],
  chunks: ["Decoded columns", "Columns of Parquet and ORC files, decoded for scans that come again"],
  metadata: ["Metadata", "Parsed footers and indexes of files, and the index of the disk tier"],
  decodes: ["Decodes", "Columns that are being decoded now: at most a quarter of the budget"],
  uploads: ["Uploads", "Bodies that clients are sending: at most an eighth of the budget, and 512 MiB"],
  other: ["Other", "What callers hold even when nothing is free"],
};

const COUNTERS = [
  ["Pages in memory", "memory_pages", count], ["Hits in memory", "memory_hits", count], ["Hits on disk", "disk_hits", count],
  ["Misses", "misses", count], ["Evictions", "evictions", count], ["Held ahead of readers", "ahead_used", bytes],
  ["Being fetched", "in_flight_used", bytes], ["Written to disk", "disk_written", bytes], ["Moved on disk", "disk_rewritten", bytes],
  ["Read from disk", "disk_read", bytes], ["Not written, queue full", "dropped_queue_full", count],
  ["Not written, disk full or failed", "dropped_disk_failed", count], ["Damaged on disk", "disk_rejected", count],
];

export class Memory {
  constructor(node) {
    this.node = node;
    this.memory = new TimeChart(byId("chart-memory"), {
      title: "Memory in use", note: "the dashed line is the budget", unit: "bytes", limit: () => this.node.stats?.memory.capacity ?? null,
      series: [{ name: "In use", kind: "memory", of: sample => sample.memory_used }],
    });
    this.disk = new TimeChart(byId("chart-disk"), {
      title: "Disk in use", note: "the dashed line is the capacity", unit: "bytes", limit: () => this.node.stats?.cache.disk_capacity || null,
      series: [{ name: "Live pages", kind: "disk", of: sample => sample.disk_used }],
    });
    const shown = COUNTERS.map(([title, name, show]) => {
      const value = element("dd");
      byId("cache-counters").append(element("div", {}, element("dt", {}, title), value));
      return cache => setText(value, show(cache[name]));
    });
    this.showCounters = cache => shown.forEach(show => show(cache));
  }

  show() {
    const { memory, cache } = this.node.stats;
    this.memory.update(...this.node.history);
    this.disk.update(...this.node.history);
    byId("chart-disk").hidden = !cache.disk_capacity;

    const share = held => held / Math.max(1, memory.capacity);
    const free = { holder: "free", bytes: Math.max(0, memory.capacity - memory.used) };
    showBar(byId("holder-bar"), memory.holders.map(({ holder, bytes: held }) => [share(held), holder]));
    showRows(byId("holders"), [...memory.holders, free], ({ holder }) => holder, ({ holder, bytes: held, value, reclaimed, refused }) => {
      const [name, what] = USES[holder] ?? [holder === "free" ? "Free" : holder, holder === "free" ? "Not in use; taken as it is needed" : ""];
      return [
        { make: () => [element("span", {}, element("i", { class: `swatch ${holder}`, "aria-hidden": "true" }), name)], head: true },
        { text: bytes(held), kind: "n" }, { text: percent(share(held)), kind: "n" },
        { text: value ? value.toPrecision(2) : "", kind: "n" }, { text: reclaimed === undefined ? "" : bytes(reclaimed), kind: "n" },
        { text: refused === undefined ? "" : count(refused), kind: "n" }, { text: what, kind: "wide soft" },
      ];
    }, "nothing is held");

    byId("disk-bar").hidden = !cache.disk_capacity;
    showBar(byId("disk-bar"), [[cache.disk_used / Math.max(1, cache.disk_capacity), "disk"]]);
    setText("disk-note", cache.disk_capacity
      ? `${bytes(cache.disk_used)} of ${bytes(cache.disk_capacity)} hold live pages (${count(cache.disk_pages)} pages); the rest is free or waits to be reclaimed.`
        + (cache.disk_paused ? " The disk is full or fails: nothing more is written to it for now." : "")
      : "There is none: give the node a folder with --disk, and its content survives restarts.");
    this.showCounters(cache);
  }
}
