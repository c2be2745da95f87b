// Makes and updates elements. Names and values come from anybody: they are only ever set as text.

const SVG = document.querySelector("svg").namespaceURI;

export const byId = id => document.getElementById(id);

/** Sets the text of an element, if it is another: a screen reader and a selection are left alone otherwise. */
export function setText(target, text) {
  const found = typeof target === "string" ? byId(target) : target;
  if (found.textContent !== text) found.textContent = text;
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(name, String(value));
  }
  made.append(...children.filter(child => child !== undefined && child !== null));
  return made;
}

export const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const drawing = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/**
 * Shows items as the rows of a table body. Rows keep their place and focus by their keys. A cell is a text, or
 * `{ text, kind, title }`, or `{ make }`, a function that makes its content once and returns what updates it.
 */
export function showRows(body, items, keyOf, cellsOf, nothing) {
  const known = new Map([...body.rows].map(row => [row.dataset.key, row]));
  if (!items.length) {
    const columns = body.closest("table").tHead.rows[0].cells.length;
    body.replaceChildren(element("tr", {}, element("td", { class: "soft", colspan: columns }, nothing)));
    return;
  }

  const rows = items.map(item => {
    const key = String(keyOf(item));
    let row = known.get(key);
    known.delete(key);
    if (!row) {
      row = element("tr", { "data-key": key });
      row.update = [];
    }
    cellsOf(item).forEach((cell, at) => showCell(row, at, cell, item));
    return row;
  });

  known.forEach(row => row.remove());
  rows.forEach((row, at) => {
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
  });
}

function showCell(row, at, cell, item) {
  const { text, kind, title, make, head } = typeof cell === "string" ? { text: cell } : cell;
  let shown = row.cells[at];
  if (!shown) {
    shown = row.appendChild(element(head ? "th" : "td", head ? { class: kind, scope: "row" } : { class: kind }));
    if (make) {
      const [content, update] = make(item);
      shown.append(content);
      row.update[at] = update;
    }
  }
  if (make) row.update[at]?.(item);
  else setText(shown, text);
  if (title !== undefined && shown.title !== title) shown.title = title;
}

/** Shows rows of texts and nulls under the names and types of their columns. */
export function showGrid(table, columns, rows) {
  const isNumber = columns.map(({ type }) => /^(U?Int|Float|Decimal)/.test(type));
  table.tHead.replaceChildren(element("tr", {}, ...columns.map(({ name, type }, at) =>
    element("th", { scope: "col", class: isNumber[at] ? "n" : undefined }, name, element("span", { class: "type" }, type)))));
  table.tBodies[0].replaceChildren(...rows.map(values => element("tr", {}, ...values.map((value, at) =>
    value === null ? element("td", { class: "null" }, "null") : element("td", { class: isNumber[at] ? "n" : "cut", title: value.length > 30 ? value : undefined }, value)))));
}

/** Draws shares of a whole as a bar: `parts` are `[share, kind]`. */
export function showBar(target, parts) {
  while (target.children.length > parts.length) target.lastChild.remove();
  parts.forEach(([share, kind], at) => {
    const part = target.children[at] ?? target.appendChild(element("i"));
    part.className = kind;
    part.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  });
}
