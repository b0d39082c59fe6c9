// What session-orchestrator's own code makes of the metric files of the repository it is started in.
// First argument: the folder of the package. Prints one JSON object.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';

const [plugin] = process.argv.slice(2);
const repoRoot = process.cwd();
const theirs = (path) => import(pathToFileURL(join(plugin, 'scripts/lib', path)).href);

const { validateSession, normalizeSession, serializeSessionLineChecked } = await theirs('session-schema.mjs');
const { readCanonicalSessions } = await theirs('sessions-canonical.mjs');
const { checkSessionsIntegrity } = await theirs('sessions-integrity-banner.mjs');
const { buildLiveSignals } = await theirs('build-live-signals.mjs');
const { selectMode } = await theirs('mode-selector.mjs');
const { readRecentAutopilotRuns } = await theirs('autopilot/recent-runs.mjs');
const { computeSuitabilityVerdict } = await theirs('autonomy/suitability.mjs');
const { groupByMode } = await theirs('evolve/autopilot-effectiveness.mjs');

// The path of a record that is written: validated, and again after a round trip. `null` = nothing to complain about.
function complaint(record) {
  try {
    if (!isDeepStrictEqual(validateSession(record), record)) return 'the validator changed it';
    if (!isDeepStrictEqual(JSON.parse(serializeSessionLineChecked(record)), record)) return 'the writer changed it';
    if (!isDeepStrictEqual(normalizeSession(record), record)) return 'the reader changed it';
    return null;
  } catch (error) {
    return String(error);
  }
}

const lines = readFileSync('.orchestrator/metrics/sessions.jsonl', 'utf8').split('\n').filter((line) => line !== '');
const canonical = readCanonicalSessions({ repoRoot });
const signals = await buildLiveSignals({ repoRoot });
const runs = readRecentAutopilotRuns({ repoRoot });

process.stdout.write(
  JSON.stringify({
    complaints: lines.map((line) => complaint(JSON.parse(line))),
    integrity: checkSessionsIntegrity({ repoRoot }),
    canonical: canonical.map((record) => record.session_id),
    recent: signals.recentSessions.map((record) => record.session_id),
    selected: selectMode(signals),
    selected_after_feature: selectMode({ ...signals, recommendedMode: 'feature' }),
    runs: runs.map((run) => run.autopilot_run_id),
    suitability: computeSuitabilityVerdict({ recentRuns: runs, confidence: 0.9 }),
    by_mode: Object.fromEntries(groupByMode(runs, canonical)),
  }),
);
