// An authorization server (`oidc-provider`) for the tests: it gives signed tokens to one client that proves itself by a secret.
// It prints its address, and ends with its input.
//
// usage: node oidc_server.mjs RESOURCE SECRET
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// From where it is installed, which is not beside this file.
const require = createRequire(process.env.CLIENTS_FOLDER + "/");
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

const [resource, secret] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const key = { ...privateKey.export({ format: "jwk" }), kid: "tests", use: "sig", alg: "ES256" };

const server = createServer();
server.listen(0, "127.0.0.1", () => {
    const issuer = `http://127.0.0.1:${server.address().port}`;
    const provider = new Provider(issuer, {
        clients: [
            {
                client_id: "helpdesk",
                client_secret: secret,
                grant_types: ["client_credentials"],
                redirect_uris: [],
                response_types: [],
                token_endpoint_auth_method: "client_secret_post",
                id_token_signed_response_alg: "ES256",
            },
        ],
        jwks: { keys: [key] },
        scopes: ["palisade"],
        extraTokenClaims: () => ({ groups: ["support"] }),
        features: {
            devInteractions: { enabled: false },
            clientCredentials: { enabled: true },
            resourceIndicators: {
                enabled: true,
                getResourceServerInfo: (_context, indicator) => ({
                    scope: "palisade",
                    audience: indicator,
                    accessTokenTTL: 300,
                    accessTokenFormat: "jwt",
                    jwt: { sign: { alg: "ES256" } },
                }),
            },
        },
    });
    server.on("request", provider.callback());
    console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
