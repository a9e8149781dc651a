// The calls of `calls.json` by the TypeScript SDK, which is installed in the working directory.
// usage: node client.mjs BINARY FOLDER, where FOLDER is what `client.py make BINARY FOLDER` made.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join, dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

const [binary, folder] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const calls = JSON.parse(readFileSync(join(here, "calls.json"), "utf8"));
const args = ["serve", `sqlite:${join(folder, "notes.db")}`, "--writable", "--policies", join(folder, "policies"), "--as", 'Agent::"tester"'];

const client = new Client({ name: "typescript", version: "0" });
await client.connect(new StdioClientTransport({ command: binary, args, stderr: "ignore" }));
// The SDK checks each structured answer against the tool's output schema once it has the list.
const { tools } = await client.listTools();
const kept = {};
const filled = (value) => typeof value === "string" ? value.replace(/\{(\w+)\}/g, (whole, name) => kept[name] ?? whole) : value;
for (const call of calls) {
    const given = Object.fromEntries(Object.entries(call.arguments).map(([name, value]) => [name, filled(value)]));
    const told = await client.callTool({ name: call.tool, arguments: given });
    const content = told.structuredContent ?? {};
    const whole = JSON.stringify(told);
    const isRight = call.code
        ? told.isError && content.code === call.code
        : !told.isError && whole.includes(filled(call.has ?? "")) && !(call.lacks && whole.includes(call.lacks));
    if (!isRight) {
        console.error(`client.mjs: FAILED: ${JSON.stringify(call)}: ${whole}`);
        process.exit(1);
    }
    if (call.keep) kept[call.keep] = content[call.keep];
}
await client.close();
console.log(`client.mjs: ok (${calls.length} calls of ${tools.length} tools)`);
