// The node's page: chooses the view by the fragment of the address, and asks the node for what it shows.

import { get } from "./api.js";
import { Browser } from "./browse.js";
import { Buckets } from "./buckets.js";
import { Cluster } from "./cluster.js";
import { byId, setText } from "./elements.js";
import { duration } from "./format.js";
import { Memory } from "./memory.js";
import { HotObjects } from "./objects.js";
import { Overview } from "./overview.js";
import { Reads } from "./reads.js";

const PERIOD = 2000;
const SPANS = { "1s": 600_000, "1m": 86_400_000 };

/** What the views read: the last answers of the node. */
const node = {
  session: null,
  stats: null,
  every: "1s",
  samples: { "1s": [], "1m": [] },
  get history() {
    return [this.samples[this.every], this.every === "1s" ? 1000 : 60_000, SPANS[this.every]];
  },
  /** The samples of the last minute. */
  get lately() {
    return this.samples["1s"].slice(-60);
  },
};

const views = {
  overview: new Overview(node), buckets: new Buckets(node), memory: new Memory(node), objects: new HotObjects(node),
  reads: new Reads(node), cluster: new Cluster(node), browse: new Browser(node),
};
const names = Object.keys(views);
let view = "overview";

/** Shows the view that the address names. */
function route(moved) {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const found = names.includes(name) ? name : "overview";
  const changed = found !== view;
  view = found;
  for (const other of names) byId(other).hidden = other !== view;
  for (const link of document.querySelectorAll("body > nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }

  const title = byId(`${view}-title`);
  document.title = `${title.textContent} – Stylobate`;
  views[view].open?.(rest.map(decode));
  // What had the focus may have gone with the former view or folder.
  if (moved && (changed || document.activeElement === document.body)) title.focus();
  show();
}

/** A fragment may have been typed: a sign that is no escape stands for itself. */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  if (!node.stats) return;
  setText("version", node.stats.version);
  setText("uptime", "up " + duration(node.stats.requests.uptime_seconds));
  views[view].show();
}

async function sample(every) {
  const known = node.samples[every];
  const { samples, capacity } = await get("api/history", { every, since: known.at(-1)?.at_ms });
  const isOther = known.length && samples.length && samples[0].at_ms < known.at(-1).at_ms;
  node.samples[every] = [...(isOther ? [] : known), ...samples].slice(-capacity);
}

async function refresh() {
  if (document.hidden) return;
  const wanted = [get("api/stats"), sample("1s"), node.every === "1s" ? null : sample(node.every)];
  const [stats] = await Promise.all(wanted);
  node.stats = stats;
  node.session ??= await get("api/session");
  setText("who", node.session.keys ? `signed in as ${node.session.access_key}` : "no access keys");
  await views[view].refresh?.();
  show();
}

async function watch() {
  const state = byId("state");
  try {
    await refresh();
    setText(state, "");
    state.className = "";
  } catch (error) {
    const what = error.status === undefined ? "This page failed" : error.status ? "The node refuses" : "The node is gone";
    setText(state, `${what}: ${error.message}`);
    state.className = "lost";
    // An answer after a restart may come from another version, or for another key.
    node.session = null;
  }
  setTimeout(watch, PERIOD);
}

for (const choice of document.querySelectorAll("input[name=range]")) {
  choice.addEventListener("change", async () => {
    node.every = choice.value;
    await sample(node.every).catch(() => {});
    show();
  });
}
byId("skip").addEventListener("click", event => {
  event.preventDefault();
  byId("main").focus();
});
addEventListener("hashchange", () => route(true));
// A reload may keep the choice.
node.every = document.querySelector("input[name=range]:checked").value;
route(false);
watch();
