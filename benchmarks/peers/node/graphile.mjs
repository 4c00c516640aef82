// graphile-worker. Settings: worker.graphile.org/docs/performance (its own measurement has a localQueue of 500 and a
// pool one larger than concurrentJobs; of the batch delays that it names, 0, 25 and 250 ms, 250 cost least here).

import { makeWorkerUtils, run } from "graphile-worker";
import { Logger } from "@graphile/logger";
import { count, message, mode, pieces, post, SLOTS, until } from "./common.mjs";

const connectionString = process.env.BENCH_DATABASE;
const logger = new Logger(() => () => {});

if (mode === "enqueue") {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  for (const piece of pieces()) {
    await utils.addJobs(piece.map((number) => ({ identifier: "push", payload: message(number) })));
  }
  await utils.release();
  console.log(count);
} else {
  const runner = await run({
    preset: {
      worker: {
        connectionString,
        logger,
        concurrentJobs: SLOTS,
        maxPoolSize: SLOTS + 1,
        localQueue: { size: 500 },
        completeJobBatchDelay: 250,
        failJobBatchDelay: 250,
      },
    },
    taskList: { push: post },
    noHandleSignals: true,
  });
  until(() => runner.stop());
}
