// Scans and queries under way, with their progress, to be cancelled.

import { get, post } from "./api.js";
import { byId, element, setText, showRows } from "./elements.js";
import { bytes, duration, percent, whole } from "./format.js";

export class Reads {
  constructor(node) {
    this.node = node;
    this.report = { reads: [], unlisted: 0 };
  }

  open() {
    this.refresh().then(() => this.show(), () => {});
  }

  async refresh() {
    this.report = await get("api/reads");
  }

  show() {
    const { reads, unlisted } = this.report;
    showRows(byId("read-rows"), reads, ({ id }) => id, read => [
      { text: read.text, kind: "cut", head: true, title: read.text },
      read.kind,
      read.access_key ?? "",
      { text: duration(read.seconds), kind: "n" },
      { text: whole(read.rows), kind: "n" },
      { text: read.bytes ? bytes(read.bytes) : "", kind: "n" },
      { make: () => progress() },
      { make: () => [this.button(read)] },
    ], "nothing runs");
    const isAllowed = this.node.session?.may_operate ?? false;
    for (const button of byId("read-rows").querySelectorAll("button")) button.disabled = !isAllowed;
    setText("reads-note", (unlisted ? `${whole(unlisted)} more run. ` : "")
      + (isAllowed || !this.node.session ? "" : "To cancel, sign in with a key that writes to all buckets."));
  }

  button({ id, text }) {
    const button = element("button", { "aria-label": `Cancel ${text}` }, "Cancel");
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        await post("api/reads/cancel", { id });
        setText("reads-outcome", `Cancelled: ${text}`);
        await this.refresh();
      } catch (error) {
        setText("reads-outcome", `${text}: ${error.message}`);
      }
      this.show();
      // The button goes with its row.
      if (!button.isConnected) byId("reads-title").focus();
    });
    return button;
  }
}

/** A bar where the number of rows is known. With a filter, it is not: rows so far tell nothing of the rest. */
function progress() {
  const shown = element("span");
  const bar = element("progress", { max: 1, "aria-label": "rows sent" });
  const text = element("span", { class: "soft" });
  shown.append(bar, " ", text);
  return [shown, ({ rows, total_rows: total }) => {
    bar.hidden = total === null;
    if (total !== null) bar.value = total ? Math.min(1, rows / total) : 1;
    setText(text, total === null ? "unknown" : percent(total ? Math.min(1, rows / total) : 1));
  }];
}
