// The data browser: folders and objects of a bucket; columns, row groups and first rows of a file; SQL on what is open.

import { get } from "./api.js";
import { byId, element, setText, showGrid } from "./elements.js";
import { bytes, whole } from "./format.js";
import { SqlBox } from "./sql.js";

const address = (bucket, key) => `#browse/${encodeURIComponent(bucket)}/${key.split("/").map(encodeURIComponent).join("/")}`;
const cell = (text, kind) => element("td", { class: kind }, text ?? "");
const size = value => value === null || value === undefined ? "" : bytes(value);

export class Browser {
  constructor(node) {
    this.node = node;
    this.form = byId("open");
    this.form.addEventListener("submit", event => {
      event.preventDefault();
      const { bucket, key } = this.form.elements;
      location.hash = address(bucket.value, key.value);
    });
    byId("more").addEventListener("click", () => this.list(this.next));
    this.sql = new SqlBox();
  }

  /** Opens a bucket's folder or object; without a bucket, the list of buckets. */
  open([bucket, ...key]) {
    const path = key.join("/");
    if (this.bucket === bucket && this.key === path) return;
    this.asked?.abort();
    this.asked = new AbortController();
    Object.assign(this, { bucket, key: path, next: null });
    this.showPlace();
    setText("browse-outcome", "");
    byId("file").hidden = true;
    byId("listing").hidden = true;
    byId("listed").replaceChildren();
    if (!bucket) this.showBuckets();
    else if (!path || path.endsWith("/")) this.list();
    else this.describe();
    if (!bucket) this.sql.suggest();
    else if (isTable(path)) this.sql.suggest(`${bucket}/${path}`);
  }

  show() {
    const { stats, session } = this.node;
    this.sql.show(session);
    const { bucket } = this.form.elements;
    if (bucket.options.length !== stats.buckets.length) {
      bucket.replaceChildren(...stats.buckets.map(({ name }) => element("option", {}, name)));
      if (this.bucket) bucket.value = this.bucket;
    }
    if (!this.bucket && !byId("listed").rows.length) this.showBuckets();
  }

  showPlace() {
    const { bucket, key } = this.form.elements;
    if (this.bucket) bucket.value = this.bucket;
    key.value = this.key;
    const steps = [["All buckets", "#browse"]];
    if (this.bucket) steps.push([this.bucket, address(this.bucket, "")]);
    const parts = this.key.split("/");
    parts.forEach((part, at) => {
      if (part) steps.push([part, address(this.bucket, parts.slice(0, at + 1).join("/") + (at < parts.length - 1 ? "/" : ""))]);
    });
    byId("place").replaceChildren(...steps.map(([text, href], at) =>
      element("li", {}, element("a", { href, "aria-current": at === steps.length - 1 ? "location" : undefined }, text))));
  }

  showBuckets() {
    const { stats } = this.node;
    if (!stats) return;
    byId("listing").hidden = false;
    byId("more").hidden = true;
    byId("listed").replaceChildren(...stats.buckets.map(({ name, origin }) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: address(name, "") }, name)), cell("", "n"), cell(origin, "soft"))));
  }

  /** Runs a request for what is open; an answer that comes too late is dropped. */
  async ask(work) {
    const { asked } = this;
    try {
      await work(asked.signal);
    } catch (error) {
      if (!asked.signal.aborted) setText("browse-outcome", error.message);
    }
  }

  list(token) {
    return this.ask(async signal => {
      const page = await get("api/list", { bucket: this.bucket, prefix: this.key, token }, signal);
      if (signal.aborted) return;
      const link = (key, ...rest) => element("tr", {},
        element("th", { scope: "row" }, element("a", { href: address(this.bucket, key) }, key.slice(this.key.length))), ...rest);
      const rows = [
        ...page.folders.map(folder => link(folder, cell("", "n"), cell(""))),
        ...page.objects.map(object => link(object.key, cell(bytes(object.size), "n"), cell(new Date(object.modified).toLocaleString(), "soft"))),
      ];
      byId("listed").append(...rows);
      byId("listing").hidden = false;
      this.suggestOf(page, token);
      this.next = page.next;
      const had = document.activeElement === byId("more");
      byId("more").hidden = !page.next;
      // The keyboard goes on where the list does.
      if (token && had) rows[0]?.querySelector("a").focus();
      if (!byId("listed").rows.length) setText("browse-outcome", "There is nothing here.");
    });
  }

  /** Suggests to query the first table of a listing; of a folder of folders, the first of these. */
  suggestOf({ folders, objects }, token) {
    const first = objects.map(({ key }) => key).find(isTable) ?? folders[0];
    if (first && !token) this.sql.suggest(`${this.bucket}/${first}`);
  }

  describe() {
    const target = { bucket: this.bucket, key: this.key };
    return this.ask(async signal => {
      setText("browse-outcome", "Reading …");
      const file = await get("api/inspect", target, signal);
      if (signal.aborted) return;
      this.showFile(file);
      setText("browse-outcome", "");
      byId("rows").tHead.replaceChildren();
      byId("rows").tBodies[0].replaceChildren();
      setText("rows-note", "Reading …");
      try {
        const rows = await get("api/rows", target, signal);
        if (!signal.aborted) this.showFirstRows(rows);
      } catch (error) {
        if (!signal.aborted) setText("rows-note", error.message);
      }
    });
  }

  showFile(file) {
    byId("file").hidden = false;
    const part = file.format === "orc" ? "Stripes" : "Row groups";
    setText("parts-title", part);
    const facts = [
      ["Format", `${file.format === "orc" ? "ORC" : "Parquet"} ${file.format_version}`], ["Size", bytes(file.size)],
      ["Rows", whole(file.rows)], [part, whole(file.parts_total)], ["Columns", whole(file.columns_total)],
      ["Footer", bytes(file.footer_size)], ["Written by", file.created_by ?? "unknown"],
      ...file.metadata.map(({ key, value }) => [key, value ?? ""]),
    ];
    byId("file-facts").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
    byId("columns").replaceChildren(...file.columns.map(column => element("tr", {},
      element("th", { scope: "row" }, column.name), cell(column.type, "soft"), cell(column.encodings.join(", ")), cell(column.codecs.join(", ")),
      cell(size(column.compressed_size), "n"), cell(size(column.uncompressed_size), "n"), cell(column.nulls === null ? "" : whole(column.nulls), "n"),
      cell(column.min === null ? "" : String(column.min), "cut"), cell(column.max === null ? "" : String(column.max), "cut"))));
    byId("parts").replaceChildren(...file.parts.map((part, at) => element("tr", {},
      cell(String(at), "n"), cell(whole(part.rows), "n"), cell(part.offset === null ? "" : whole(part.offset), "n"),
      cell(size(part.compressed_size), "n"), cell(size(part.uncompressed_size), "n"), cell((part.sorted_by ?? []).join(", ")))));
    setText("columns-note", remainder(file.columns.length, file.columns_total));
    setText("parts-note", remainder(file.parts.length, file.parts_total));
  }

  showFirstRows({ columns, columns_total: all, rows, rows_total: total }) {
    showGrid(byId("rows"), columns, rows);
    setText("rows-note", `${whole(rows.length)} of ${whole(total)} rows` + (all > columns.length ? `, ${columns.length} of ${all} columns` : ""));
  }
}

const isTable = key => /\.(parquet|orc)$/i.test(key);
const remainder = (shown, all) => shown < all ? `The first ${whole(shown)} of ${whole(all)}.` : "";
