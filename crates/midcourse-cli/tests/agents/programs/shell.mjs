// What the Node programs in this folder share: arguments, `.env`, the task, and one tool that runs a shell command.
// Usage of each: node PROGRAM API TASK [--base-url URL]
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// As `import 'dotenv/config'` does: a variable that is set already keeps its value.
if (existsSync('.env')) process.loadEnvFile('.env');

export const api = process.argv[2];
export const task = process.argv[3];
export const baseURL = process.argv[4] === '--base-url' ? process.argv[5] : undefined;
export const description = 'Runs a shell command and returns its output and exit code.';
export const parameters = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] };

export function bash({ command }) {
  const { stdout, stderr, status } = spawnSync('bash', ['-c', command], { encoding: 'utf8' });
  return { output: stdout + stderr, exitCode: status };
}
