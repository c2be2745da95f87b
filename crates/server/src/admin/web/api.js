// Requests to the node.

/** An answer that is not the one that was asked for. */
export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Refused(0, "no answer");
  }
  if (answer.ok) return answer.json();
  if (answer.status === 401) throw new Refused(401, "sign in again: reload this page");
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.error ?? `status ${answer.status}`);
}

export function get(path, parameters = {}, signal) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return ask(query ? `${path}?${query}` : path, { signal });
}

export const post = (path, body, signal) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
