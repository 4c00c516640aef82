// What the peers for Node share: the message, the call, and how they are told what to do.

import { Pool } from "undici";

export const mode = process.argv[2];
export const count = Number(process.argv[3] ?? 0);
export const SLOTS = 100;

const url = new URL(process.env.BENCH_URL);
const headers = JSON.parse(process.env.BENCH_HEADERS);
const template = process.env.BENCH_TEMPLATE;

// One connection for each call at the same time. A POST is not pipelined (undici.nodejs.org/#/docs/api/Client:
// only requests that are idempotent are), so that more of it would change nothing.
const pool = new Pool(url.origin, { connections: SLOTS, pipelining: 1 });

/** The payload of job `number`: the message as an object. */
export function message(number) {
  return JSON.parse(template.replaceAll("@NUMBER@", String(number).padStart(12, "0")));
}

/** One POST, its answer read and looked at, as applications call undici. */
async function request(payload) {
  const answer = await pool.request({ method: "POST", path: url.pathname, headers, body: JSON.stringify(payload) });
  const told = await answer.body.text();
  check(answer.statusCode, told);
}

/** The same by what undici itself is built on, meant for libraries (its docs, "Dispatcher.dispatch"): cheaper. */
function dispatch(payload) {
  return new Promise((resolve, reject) => {
    const call = { method: "POST", path: url.pathname, headers, body: JSON.stringify(payload) };
    let status = 0;
    let text = "";
    pool.dispatch(call, {
      onRequestStart() {},
      onResponseStart(_, code) {
        status = code;
      },
      onResponseData(_, chunk) {
        text += chunk;
      },
      onResponseEnd() {
        try {
          resolve(check(status, text));
        } catch (error) {
          reject(error);
        }
      },
      onResponseError(_, error) {
        reject(error);
      },
    });
  });
}

function check(status, text) {
  if (status !== 200 || !JSON.parse(text).name) throw new Error(`answered ${status}`);
}

export const post = process.env.BENCH_CLIENT === "dispatch" ? dispatch : request;

/** Numbers 0 … count - 1 in pieces, as makers of jobs in bulk want them. */
export function* pieces(size = 1000) {
  for (let begin = 0; begin < count; begin += size) {
    yield Array.from({ length: Math.min(size, count - begin) }, (_, index) => begin + index);
  }
}

/** Work until SIGTERM, then stop as the library wants it. */
export function until(stop) {
  process.on("SIGTERM", () => {
    setTimeout(() => process.exit(0), 5000).unref();
    Promise.resolve(stop()).finally(() => process.exit(0));
  });
}
