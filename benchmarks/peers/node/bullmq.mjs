// BullMQ. Settings: docs.bullmq.io/guide/workers/concurrency (one worker with a concurrency factor, for calls over the
// network), docs.bullmq.io/guide/queues/auto-removal-of-jobs, docs.bullmq.io/guide/queues/adding-bulks.

import { Queue, Worker } from "bullmq";
import { count, message, mode, pieces, post, SLOTS, until } from "./common.mjs";

const connection = { host: "127.0.0.1", port: Number(process.env.BENCH_VALKEY), maxRetriesPerRequest: null };

if (mode === "enqueue") {
  const queue = new Queue("push", { connection });
  for (const piece of pieces()) {
    await queue.addBulk(
      piece.map((number) => ({ name: "push", data: message(number), opts: { removeOnComplete: true } })),
    );
  }
  await queue.close();
  console.log(count);
} else {
  const worker = new Worker("push", (job) => post(job.data), { connection, concurrency: SLOTS });
  worker.on("error", (error) => console.error(error));
  until(() => worker.close());
}
