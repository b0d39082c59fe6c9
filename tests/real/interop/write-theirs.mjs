// Adds run records to autopilot.jsonl with session-orchestrator's own writers: a run that was stopped, and the summary of
// several runs, which is no record of a run. First argument: the folder of the package. Prints what was written.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [plugin] = process.argv.slice(2);
const theirs = (path) => import(pathToFileURL(join(plugin, 'scripts/lib', path)).href);
const { SCHEMA_VERSION, defaultRunId, finalizeState, writeAutopilotJsonl, writeMultiStoryCoordinatorEntry } =
  await theirs('autopilot/telemetry.mjs');
const { KILL_SWITCHES } = await theirs('autopilot/kill-switches.mjs');

const file = '.orchestrator/metrics/autopilot.jsonl';
const started = Date.parse('2026-04-25T08:42:00Z');
const run = {
  schema_version: SCHEMA_VERSION,
  autopilot_run_id: defaultRunId('main', started),
  started_at: new Date(started).toISOString(),
  iterations_completed: 2,
  kill_switch: KILL_SWITCHES.SPIRAL,
  kill_switch_detail: 'iteration 2: spiral=1',
  sessions: ['main-2026-04-25-0842', 'main-2026-04-25-0913'],
  dry_run: false,
};
finalizeState(run, () => started + 5_400_000);
writeAutopilotJsonl(run, file);
writeMultiStoryCoordinatorEntry(
  {
    run_id: 'multi-1',
    started_at: run.started_at,
    ended_at: run.completed_at,
    stop_reason: 'backlog-empty',
    child_run_ids: [run.autopilot_run_id],
  },
  file,
);
process.stdout.write(JSON.stringify({ run }));
