// The SQL box of the data browser, on a node that has SQL: runs a query, and shows its first rows.

import { post } from "./api.js";
import { byId, setText, showGrid } from "./elements.js";
import { milliseconds, whole } from "./format.js";

export class SqlBox {
  constructor() {
    this.form = byId("query");
    this.text = this.form.elements.sql;
    this.form.addEventListener("submit", event => {
      event.preventDefault();
      this.run();
    });
    this.text.addEventListener("keydown", event => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.form.requestSubmit();
    });
    byId("query-cancel").addEventListener("click", () => {
      this.running?.abort();
      // A disabled button loses the focus.
      this.text.focus();
    });
    this.suggest();
  }

  show(session) {
    byId("sql").hidden = !session?.sql;
  }

  /** Writes an example for a file or folder, unless the text was edited. */
  suggest(path) {
    const example = path ? `SELECT * FROM '${path.replaceAll("'", "''")}'` : "SHOW TABLES";
    if (!this.text.value || this.text.value === this.example) this.text.value = example;
    this.example = example;
  }

  /** Runs the query. One that still runs ends: the node ends it when the request does. */
  async run() {
    this.running?.abort();
    const running = this.running = new AbortController();
    byId("query-cancel").disabled = false;
    this.say("Running …");
    try {
      const query = { sql: this.text.value, limit: Number(this.form.elements.limit.value) };
      const report = await post("api/sql", query, running.signal);
      if (this.running === running) this.showResult(report);
    } catch (error) {
      if (this.running === running) this.showFailure(running.signal.aborted ? null : error);
    }
    if (this.running !== running) return;
    this.running = null;
    byId("query-cancel").disabled = true;
  }

  showResult({ columns, columns_total: all, rows, more, elapsed_ms: elapsed }) {
    byId("result-box").hidden = false;
    showGrid(byId("result"), columns, rows);
    const found = more ? `The first ${whole(rows.length)} rows` : rows.length === 1 ? "1 row" : `${whole(rows.length)} rows`;
    this.say(`${found} in ${milliseconds(elapsed)}` + (all > columns.length ? `, ${columns.length} of ${all} columns` : ""));
  }

  /** Without an error, the query was cancelled. */
  showFailure(error) {
    byId("result-box").hidden = true;
    this.say(error?.message ?? "Cancelled", error !== null);
  }

  say(text, isError = false) {
    const outcome = byId("query-outcome");
    outcome.classList.toggle("bad", isError);
    setText(outcome, text);
  }
}
