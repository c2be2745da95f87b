// The buckets: health of their origins, what the cache saved, and forms to warm and to evict.

import { get, post } from "./api.js";
import { byId, element, setText, showRows } from "./elements.js";
import { bytes, count, milliseconds, percent, whole } from "./format.js";

const PRICES = ["price-requests", "price-bytes"];
const HEALTH_PERIOD = 10_000;

export class Buckets {
  constructor(node) {
    this.node = node;
    this.health = new Map();
    this.checked = 0;
    this.form = byId("upkeep");
    this.form.addEventListener("submit", event => this.submit(event));
    for (const id of PRICES) {
      byId(id).value = stored(id);
      byId(id).addEventListener("input", () => {
        store(id, byId(id).value);
        this.show();
      });
    }
  }

  open() {
    this.refresh().then(() => this.show(), () => {});
  }

  async refresh() {
    if (Date.now() - this.checked < HEALTH_PERIOD) return;
    const { checks } = await get("api/health");
    this.checked = Date.now();
    this.health = new Map(checks.map(({ name, ok, error }) => [name, ok ? "answers" : error]));
  }

  show() {
    const { stats, session } = this.node;
    if (!stats) return;
    showRows(byId("bucket-rows"), stats.buckets, ({ name }) => name, bucket => this.cells(bucket), "no buckets");
    showRows(byId("origin-rows"), stats.buckets, ({ name }) => name, bucket => this.originCells(bucket), "no buckets");

    const { bucket } = this.form.elements;
    const names = session?.may_change ?? [];
    if (bucket.options.length !== names.length) bucket.replaceChildren(...names.map(name => element("option", {}, name)));
    const isAllowed = names.length > 0;
    for (const control of this.form.elements) control.disabled = !isAllowed || this.isBusy;
    if (!isAllowed && session) setText("upkeep-outcome", "Your key writes to no bucket, so it may not change what is cached.");
  }

  cells({ name, read_only: isReadOnly, hit_ratio: ratio, reads, saved }) {
    return [
      { make: () => [element("a", { href: `#browse/${encodeURIComponent(name)}/` }, name + (isReadOnly ? " (read-only)" : ""))], head: true },
      { text: percent(ratio), kind: "n" },
      { text: bytes(reads.bytes_memory), kind: "n" },
      { text: bytes(reads.bytes_disk), kind: "n" },
      { text: bytes(reads.bytes_origin + reads.bytes_passed_through), kind: "n" },
      { text: count(saved.requests), kind: "n", title: whole(saved.requests) },
      { text: bytes(saved.bytes), kind: "n" },
      { text: cost(saved), kind: "n" },
    ];
  }

  originCells({ name, origin, reads, origin_requests: asked }) {
    const failures = Object.entries(asked.errors);
    return [
      { text: name, head: true },
      { make: () => this.healthMark() },
      { text: count(reads.origin_gets + reads.origin_heads), kind: "n" },
      { text: count(asked.answered), kind: "n" },
      { text: asked.answered ? milliseconds(asked.p50_ms) : "", kind: "n" },
      { text: asked.answered ? milliseconds(asked.p99_ms) : "", kind: "n" },
      { text: count(failures.reduce((sum, [, n]) => sum + n, 0)), kind: "n", title: failures.map(([what, n]) => `${what}: ${n}`).join(", ") },
      { text: count(reads.waits_merged), kind: "n" },
      { text: origin, kind: "cut soft", title: origin },
    ];
  }

  healthMark() {
    const mark = element("span");
    return [mark, ({ name }) => {
      const health = this.health.get(`bucket ${name}`);
      setText(mark, health === undefined ? "…" : health === "answers" ? health : `⚠ ${health}`);
      mark.className = health === undefined ? "soft" : health === "answers" ? "good" : "bad";
    }];
  }

  async submit(event) {
    event.preventDefault();
    const verb = event.submitter?.value ?? "warm";
    const { bucket, prefix } = this.form.elements;
    const target = { bucket: bucket.value, prefix: prefix.value };
    const place = `${target.bucket}/${target.prefix}`;
    this.isBusy = true;
    setText("upkeep-outcome", verb === "warm" ? `Loading ${place} …` : `Dropping ${place} …`);
    try {
      const done = await post(`api/${verb}`, target);
      setText("upkeep-outcome", verb === "warm"
        ? `${place}: ${whole(done.objects)} objects loaded, ${bytes(done.bytes)}` + (done.failed ? `; ${whole(done.failed)} failed: ${done.errors[0]?.error ?? ""}` : "")
        : `${place}: ${whole(done.objects)} objects dropped`);
    } catch (error) {
      setText("upkeep-outcome", `${place}: ${error.message}`);
    }
    this.isBusy = false;
    this.show();
    event.submitter?.focus();
  }
}

/** What the saved requests and bytes would have cost, by the prices in the form. */
function cost({ requests, bytes }) {
  const [perThousand, perGigabyte] = PRICES.map(id => byId(id).valueAsNumber);
  if (Number.isNaN(perThousand) && Number.isNaN(perGigabyte)) return "";
  return ((perThousand || 0) * requests / 1000 + (perGigabyte || 0) * bytes / 1e9).toFixed(2);
}

// A browser may refuse to store anything.
function stored(name) {
  try {
    return localStorage.getItem(`stylobate ${name}`) ?? "";
  } catch {
    return "";
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`stylobate ${name}`, value);
  } catch {
    // The price holds until the page is left.
  }
}
