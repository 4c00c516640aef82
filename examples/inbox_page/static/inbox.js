// Copies, counter and read marks over a WebSocket; over server-sent events where something on the way lets none through.

const list = document.querySelector("#copies");
const counter = document.querySelector("#unread");
const state = document.querySelector("#state");

let recipient, ticket;
let cursor = 0;
let socket = null; // open, or null

const base = () => `/v1/inbox/${encodeURIComponent(recipient)}`;
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function call(path, options = {}) {
  const headers = { Authorization: `Bearer ${ticket}`, "Content-Type": "application/json" };
  const answer = await fetch(base() + path, { ...options, headers });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer;
}

async function login() {
  ({ recipient, ticket } = await (await fetch("/ticket")).json());
}

// --- what is shown ---

function count(unread) {
  counter.textContent = unread;
  counter.dataset.count = unread;
  document.title = unread ? `(${unread}) Inbox` : "Inbox";
}

function show(copy) {
  document.getElementById(copy.id)?.remove(); // sent once more, it is on top again
  const item = document.createElement("li");
  item.id = copy.id;
  item.classList.toggle("read", copy.read_at !== null);
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Read";
  button.addEventListener("click", () => read({ ids: [copy.id] }));
  const title = document.createElement("h2");
  const text = document.createElement("p");
  // textContent, never innerHTML: what a notification says is not the page's own.
  title.textContent = copy.content.title ?? "";
  text.textContent = copy.content.text ?? "";
  item.append(button, title, text);
  list.prepend(item);
}

function mark(ids) {
  for (const id of ids) document.getElementById(id)?.classList.add("read");
}

function happened(name, seq, data) {
  if (name === "notification") show(data);
  if (name === "read") mark(data.ids);
  if (name === "unread") count(data.unread);
  if (seq) cursor = seq;
}

// --- what is told back: the mark comes to all devices, this one too, as something that happened ---

async function read(which) {
  if (socket) socket.send(JSON.stringify({ type: "read", ...which }));
  else await call("/read", { method: "POST", body: JSON.stringify(which) });
}

document.querySelector("#all").addEventListener("click", () => read({ all: true }));

// --- the two ways ---

function overSocket() {
  // A browser lets a page set no header here, and a URL would stand in logs: the ticket goes as a subprotocol.
  const key = btoa(ticket).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const url = new URL(`${base()}/ws?after=${cursor}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  return new Promise((ended) => {
    let begun = false;
    const opening = new WebSocket(url, ["ringonce.inbox", `ringonce.key.${key}`]);
    opening.addEventListener("message", (event) => {
      const said = JSON.parse(event.data);
      if (said.type === "hello") {
        begun = true;
        socket = opening;
        state.textContent = "websocket";
        count(said.unread);
      }
      happened(said.type, said.seq, said.notification ?? said);
    });
    opening.addEventListener("close", () => {
      socket = null;
      ended(begun);
    });
  });
}

async function overEvents() {
  // EventSource can set no header either, so the answer is read as it comes.
  const answer = await call(`/stream?after=${cursor}`);
  state.textContent = "server-sent events";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const parts = buffer.split("\n\n");
    buffer = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) happened(fields.event, Number(fields.id), JSON.parse(fields.data));
    }
  }
}

// --- for as long as the page is open ---

let refusals = 0;
for (let first = true; ; first = false) {
  try {
    await login(); // a ticket ends; a new one costs nothing
    if (first) {
      const page = await (await call("")).json();
      page.notifications.reverse().forEach(show);
      count(page.unread);
      cursor = page.cursor;
    }
    if (refusals < 2) refusals = (await overSocket()) ? 0 : refusals + 1;
    else await overEvents();
  } catch {
    // Away for a moment: it goes on where it was.
  }
  if (refusals !== 1) state.textContent = "connecting";
  await pause(500);
}
