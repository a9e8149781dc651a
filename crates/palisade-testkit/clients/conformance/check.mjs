// The official conformance suite against `palisade serve --http`, of both revisions, check by check.
//
// usage: check.mjs BINARY DEMO SUITE, where DEMO is a folder that `palisade demo --dir` made, and SUITE the package's program.
// `unmet.json` names every check that does not pass, and why. One that fails and is not named there ends this with a status that is
// not 0, and so does one that is named and passes.

import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [binary, demo, suite] = process.argv.slice(2).map((file) => path.resolve(file));
const unmet = JSON.parse(fs.readFileSync(new URL('unmet.json', import.meta.url), 'utf8'));
const out = path.join(demo, 'conformance');

function fail(what) {
    console.error(`conformance/check.mjs: FAILED: ${what}`);
    process.exit(1);
}

function startServer() {
    const config = path.join(demo, 'conformance.toml');
    fs.writeFileSync(
        config,
        'policies = "demo-policies"\n[http]\ntokens = "conformance-tokens.json"\nrequests_per_minute = 1000000\n' +
            '[connections.demo]\nurl = "sqlite:demo.db"\n',
    );
    fs.rmSync(path.join(demo, 'conformance-tokens.json'), { force: true });
    const made = execFileSync(binary, ['token', 'create', 'suite', '--as', 'Agent::"support-bot"', '--config', config], { encoding: 'utf8' });
    const server = spawn(binary, ['serve', '--config', config, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
    process.on('exit', () => server.kill());
    return new Promise((resolve) => {
        let told = '';
        server.stderr.on('data', (text) => {
            told += text;
            const port = told.match(/127\.0\.0\.1:(\d+)/);
            if (port) resolve({ port: Number(port[1]), token: made.split('\n')[0] });
        });
        server.on('exit', () => fail(`the server ended: ${told}`));
    });
}

// The suite knows no tokens of a server's own, so that one is put in between.
function startProxy({ port, token }) {
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

function runSuite(url, revision) {
    const words = [suite, 'server', '--url', url, '--requirements', revision, '-o', path.join(out, revision)];
    const run = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    let told = '';
    run.stdout.on('data', (text) => (told += text));
    run.stderr.on('data', (text) => (told += text));
    return new Promise((resolve) => run.on('close', () => resolve(told)));
}

// How each check of a revision ended. A scenario that runs twice counts as it ended worse.
function readChecks(revision) {
    const checks = new Map();
    const folder = path.join(out, revision);
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

function compare(revision, checks) {
    const wanted = new Map();
    for (const { why, checks: names } of unmet[revision]) {
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
        if (!failing) faults.push(`${name} is named in unmet.json, and does not fail`);
    }
    if (faults.length > 0) fail(`${revision}:\n  ${faults.join('\n  ')}`);
    console.log(`conformance ${revision}: ${passed} checks pass, ${left} ask for what this server has not`);
    return passed;
}

fs.rmSync(out, { recursive: true, force: true });
const proxy = await startProxy(await startServer());
for (const revision of Object.keys(unmet)) {
    const told = await runSuite(`http://127.0.0.1:${proxy.address().port}/mcp`, revision);
    // A suite that did not run would pass too.
    if (compare(revision, readChecks(revision)) < 20) fail(`the suite did not run:\n${told.slice(-2000)}`);
}
process.exit(0);
