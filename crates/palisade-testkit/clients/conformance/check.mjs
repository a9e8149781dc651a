// The official conformance suite against `palisade serve --http`, of both revisions, check by check.
//
// usage: check.mjs BINARY FIXTURES DEMO SUITE, where FIXTURES is the example `conformance` of palisade-http, DEMO a folder that
// `palisade demo --dir` made, and SUITE the package's program.
//
// The suite runs twice at once: against BINARY, and against FIXTURES, which has the suite's own tools behind the same door. `unmet.json`
// names every check that does not pass against FIXTURES, and why. `unmet_without_fixtures.json` does so for BINARY. A check that fails
// without a name there ends this with a status that is not 0, and so does a named check that passes.

import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [binary, fixtures, demo, suite] = process.argv.slice(2).map((file) => path.resolve(file));
const out = path.join(demo, 'conformance');
const config = path.join(demo, 'conformance.toml');
const tokens = path.join(demo, 'conformance-tokens.json');

function fail(what) {
    console.error(`conformance/check.mjs: FAILED: ${what}`);
    process.exit(1);
}

// A token for the suite, and the configuration that knows it.
function makeToken() {
    fs.writeFileSync(
        config,
        'policies = "demo-policies"\n[http]\ntokens = "conformance-tokens.json"\nrequests_per_minute = 1000000\n' +
            '[connections.demo]\nurl = "sqlite:demo.db"\n',
    );
    fs.rmSync(tokens, { force: true });
    const made = execFileSync(binary, ['token', 'create', 'suite', '--as', 'Agent::"support-bot"', '--config', config], { encoding: 'utf8' });
    return made.split('\n')[0];
}

// The port at which a server listens.
function startServer(program, words) {
    const server = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'] });
    process.on('exit', () => server.kill());
    return new Promise((resolve) => {
        let told = '';
        server.stderr.on('data', (text) => {
            told += text;
            const port = told.match(/127\.0\.0\.1:(\d+)/);
            if (port) resolve(Number(port[1]));
        });
        server.on('exit', () => fail(`${path.basename(program)} ended: ${told}`));
    });
}

// The suite knows no tokens of a server's own, so that one is put in between.
function startProxy(port, token) {
    const proxy = http.createServer((request, response) => {
        const headers = { ...request.headers, authorization: `Bearer ${token}` };
        const options = { host: '127.0.0.1', port, path: request.url, method: request.method, headers };
        const up = http.request(options, (answer) => {
            response.writeHead(answer.statusCode, answer.rawHeaders);
            answer.pipe(response);
        });
        up.on('error', () => response.destroy());
        response.on('close', () => up.destroy());
        request.pipe(up);
    });
    return new Promise((resolve) => proxy.listen(0, '127.0.0.1', () => resolve(proxy)));
}

function runSuite(url, revision, folder) {
    const words = [suite, 'server', '--url', url, '--requirements', revision, '-o', folder];
    const run = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    let told = '';
    run.stdout.on('data', (text) => (told += text));
    run.stderr.on('data', (text) => (told += text));
    return new Promise((resolve) => run.on('close', () => resolve(told)));
}

// How each check of a revision ended. A scenario that runs twice counts as it ended worse.
function readChecks(folder) {
    const checks = new Map();
    for (const entry of fs.existsSync(folder) ? fs.readdirSync(folder) : []) {
        const scenario = entry.replace(/^server-/, '').replace(/-\d{4}-\d{2}-\d{2}T.*$/, '');
        for (const check of JSON.parse(fs.readFileSync(path.join(folder, entry, 'checks.json'), 'utf8'))) {
            const name = `${scenario}/${check.id}`;
            const failed = check.status === 'FAILURE';
            if (!checks.has(name) || failed) checks.set(name, failed ? check.errorMessage ?? 'it says no more' : null);
        }
    }
    return checks;
}

function compare(what, unmet, checks) {
    const wanted = new Map();
    for (const { why, checks: names } of unmet) {
        for (const name of names) wanted.set(name, why);
    }
    const faults = [];
    let passed = 0;
    let left = 0;
    for (const [name, failure] of checks) {
        const isNamed = wanted.has(name) || wanted.has(`${name.split('/')[0]}/*`);
        if (failure === null) passed += 1;
        else if (isNamed) left += 1;
        else faults.push(`${name}: ${failure.slice(0, 300)}`);
    }
    for (const name of wanted.keys()) {
        const scenario = name.split('/')[0];
        const failing = [...checks].some(([one, failure]) => failure !== null && (one === name || (name.endsWith('/*') && one.startsWith(`${scenario}/`))));
        if (!failing) faults.push(`${name} is named as unmet, and does not fail`);
    }
    if (faults.length > 0) fail(`${what}:\n  ${faults.join('\n  ')}`);
    console.log(`conformance ${what}: ${passed} checks pass, ${left} are named as unmet`);
    return passed;
}

// Both revisions against one server.
async function check(name, file, program, words) {
    const unmet = JSON.parse(fs.readFileSync(new URL(file, import.meta.url), 'utf8'));
    const proxy = await startProxy(await startServer(program, words), token);
    for (const revision of Object.keys(unmet)) {
        const folder = path.join(out, name, revision);
        const told = await runSuite(`http://127.0.0.1:${proxy.address().port}/mcp`, revision, folder);
        // A suite that did not run would pass too.
        if (compare(`${name} ${revision}`, unmet[revision], readChecks(folder)) < 20) fail(`the suite did not run:\n${told.slice(-2000)}`);
    }
}

fs.rmSync(out, { recursive: true, force: true });
const token = makeToken();
await Promise.all([
    check('with-fixtures', 'unmet.json', fixtures, [path.join(demo, 'demo.db'), tokens]),
    check('without-fixtures', 'unmet_without_fixtures.json', binary, ['serve', '--config', config, '--http', '127.0.0.1:0']),
]);
process.exit(0);
