// What is read most.

import { get } from "./api.js";
import { byId, element, showRows } from "./elements.js";
import { bytes, whole } from "./format.js";

const TOP = 30;

export class HotObjects {
  constructor(node) {
    this.node = node;
    this.hot = { objects: [], folders: [] };
  }

  open() {
    this.refresh().then(() => this.show(), () => {});
  }

  async refresh() {
    this.hot = await get("api/hot", { top: TOP });
  }

  show() {
    for (const kind of ["objects", "folders"]) {
      const entries = this.hot[kind];
      const all = entries.reduce((sum, { reads }) => sum + reads, 0);
      showRows(byId(`hot-${kind}`), entries.map(entry => ({ ...entry, all })), ({ bucket, key }) => `${bucket}/${key}`, cells, "nothing was read lately");
    }
  }
}

const cells = ({ bucket, key, reads, bytes: read, overcount }) => [
  { make: () => [element("a", { href: `#browse/${encodeURIComponent(bucket)}/${key.split("/").map(encodeURIComponent).join("/")}` }, key)], head: true, kind: "cut", title: key },
  bucket,
  { text: (overcount ? "about " : "") + whole(reads), kind: "n", title: overcount ? `at least ${whole(reads - overcount)}` : "" },
  { text: bytes(read), kind: "n" },
  { make: () => {
    const meter = element("progress", { max: 1, "aria-label": `share of ${key}` });
    return [meter, ({ reads, all }) => { meter.value = all ? reads / all : 0; }];
  } },
];
