// pg-boss. Settings: timgit.github.io/pg-boss/#/./api/workers ("batchSize" fetches many jobs at once and completes them
// together; several workers by calling work() several times; notifyWorker() skips the wait of the next poll).
// One failed call fails its whole batch, as the page says: what is measured here is what is fastest.

import PgBoss from "pg-boss";
import { count, message, mode, pieces, post, SLOTS, until } from "./common.mjs";

const WORKERS = 4;
const boss = new PgBoss({
  connectionString: process.env.BENCH_DATABASE,
  max: WORKERS + 6,
  supervise: mode !== "enqueue",
  schedule: false,
});
boss.on("error", (error) => console.error(error));
await boss.start();

if (mode === "enqueue") {
  await boss.createQueue("push");
  for (const piece of pieces()) {
    await boss.insert(piece.map((number) => ({ name: "push", data: message(number) })));
  }
  await boss.stop({ graceful: false });
  console.log(count);
  process.exit(0);
} else {
  const options = { batchSize: SLOTS, pollingIntervalSeconds: 0.5 };
  for (let index = 0; index < WORKERS; index += 1) {
    let id = null;
    id = await boss.work("push", options, async (jobs) => {
      await Promise.all(jobs.map((job) => post(job.data)));
      if (id) boss.notifyWorker(id);
    });
  }
  until(() => boss.stop({ graceful: false }));
}
