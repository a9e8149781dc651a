// The TypeScript SDK over HTTP, in a session: a person is asked, news are told, and the session ends.
//
// usage: session_client.mjs SDK URL TOKEN POLICIES, where SDK is the folder of the package, and POLICIES a file of the server's policies.
// Any difference from what is expected ends it with a status that is not 0.

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, address, token, policies] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(folder, 'dist/esm', file)).href);
const { Client } = await load('client/index.js');
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
const { ElicitRequestSchema, ResourceUpdatedNotificationSchema } = await load('types.js');

const WATCHED = 'palisade://databases/demo/policy';

function expect(condition, what) {
    if (condition) return;
    console.error(`session_client.mjs: FAILED: ${what}`);
    process.exit(1);
}

const client = new Client({ name: 'sessions', version: '0' }, { capabilities: { elicitation: {} } });
const said = [{ action: 'accept', content: { approve: true } }, { action: 'decline' }];
client.setRequestHandler(ElicitRequestSchema, (request) => {
    expect(request.params.message.includes('UPDATE tickets'), `what is asked, not ${request.params.message}`);
    return said.shift();
});
const told = new Promise((resolve) => client.setNotificationHandler(ResourceUpdatedNotificationSchema, resolve));
const transport = new StreamableHTTPClientTransport(new URL(address), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
await client.connect(transport);
expect(transport.sessionId, 'a session');
const change = (id) => ({ name: 'execute', arguments: { sql: `UPDATE tickets SET subject = 'asked by ts' WHERE id = ${id}` } });
const approved = await client.callTool(change(3));
expect(!approved.isError, `a change, not ${JSON.stringify(approved)}`);
const declined = await client.callTool(change(4));
expect(declined.isError && declined.structuredContent.code === 'approval.required', `a refusal, not ${JSON.stringify(declined)}`);
expect(said.length === 0, 'two questions');
await client.subscribeResource({ uri: WATCHED });
const mask = '@mask("null") forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.name");';
fs.appendFileSync(policies, `\n${mask}\n`);
const late = setTimeout(() => expect(false, 'news'), 30000);
const news = await told;
clearTimeout(late);
expect(news.params.uri === WATCHED, `news of what is watched, not ${news.params.uri}`);
await transport.terminateSession();
const after = await fetch(address, { method: 'DELETE', headers: { Authorization: `Bearer ${token}`, 'Mcp-Session-Id': 'x' } });
expect(after.status === 404, `404 for no session, not ${after.status}`);
await client.close();
