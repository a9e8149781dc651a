//! `palisade doctor --mcp`, before a right server and wrong ones.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::desk::{Answer, Desk};

/// What a server answers to a path.
#[derive(Clone)]
struct Page {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Page {
    fn json(body: &Value) -> Self {
        Self {
            status: 200,
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.to_string(),
        }
    }
}

/// The pages of a server, by path. It is the protected resource and the authorization server in one.
type Pages = BTreeMap<&'static str, Page>;

const CHALLENGE: &str = "/mcp";
const AT_PATH: &str = "/.well-known/oauth-protected-resource/mcp";
const AT_TOP: &str = "/.well-known/oauth-protected-resource";
const ISSUER: &str = "/.well-known/oauth-authorization-server/login";

/// What a right server at `base` says.
fn right_pages(base: &str) -> Pages {
    let resource = json!({"resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/login")],
        "scopes_supported": ["palisade"], "bearer_methods_supported": ["header"]});
    let issuer = json!({"issuer": format!("{base}/login"), "authorization_endpoint": format!("{base}/login/authorize"),
        "token_endpoint": format!("{base}/login/token"), "jwks_uri": format!("{base}/login/keys"),
        "response_types_supported": ["code"], "grant_types_supported": ["authorization_code", "refresh_token"],
        "scopes_supported": ["openid", "palisade"], "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"], "registration_endpoint": format!("{base}/login/register"),
        "client_id_metadata_document_supported": true});
    let challenge = format!("Bearer realm=\"r\", resource_metadata=\"{base}{AT_PATH}\"");
    Pages::from([
        (
            CHALLENGE,
            Page {
                status: 401,
                headers: vec![("WWW-Authenticate", challenge)],
                body: String::new(),
            },
        ),
        (AT_PATH, Page::json(&resource)),
        (AT_TOP, Page::json(&resource)),
        (ISSUER, Page::json(&issuer)),
    ])
}

/// Serves what `change` makes of the right pages, until the test ends. The server's address before its path.
fn serve(change: impl FnOnce(&str, &mut Pages)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut pages = right_pages(&base);
    change(&base, &mut pages);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(&stream, &pages);
        }
    });
    base
}

fn answer(stream: &TcpStream, pages: &Pages) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    let _ = reader.read_line(&mut first);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let path = first.split(' ').nth(1).unwrap_or_default();
    let missing = Page {
        status: 404,
        headers: Vec::new(),
        body: "not here".to_owned(),
    };
    let page = pages.get(path).unwrap_or(&missing);
    let mut head = format!("HTTP/1.1 {} X\r\n", page.status);
    for (name, value) in &page.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!(
        "Content-Length: {}\r\nConnection: close\r\n\r\n",
        page.body.len()
    );
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(page.body.as_bytes());
}

/// Another JSON in the place of a page's.
fn edit(pages: &mut Pages, path: &str, change: impl FnOnce(&mut Value)) {
    let page = pages.get_mut(path).unwrap();
    let mut body = serde_json::from_str(&page.body).unwrap();
    change(&mut body);
    page.body = body.to_string();
}

fn look(url: &str) -> Answer {
    let desk = Desk::empty();
    desk.run(&["doctor", "--mcp", url, "--format", "json"])
}

/// The faults of a finding: each step with what was found.
fn faults(finding: &Value, state: &str) -> Vec<String> {
    let checks = finding["checks"].as_array().unwrap();
    let found = checks.iter().filter(|check| check["state"] == state);
    found
        .map(|check| {
            assert!(check["remedy"].is_string(), "{check}");
            format!(
                "{}: {}",
                check["check"].as_str().unwrap(),
                check["finding"].as_str().unwrap()
            )
        })
        .collect()
}

fn clients(finding: &Value, works: bool) -> Vec<&str> {
    let clients = finding["clients"].as_array().unwrap();
    let found = clients.iter().filter(|client| client["works"] == works);
    found
        .map(|client| client["client"].as_str().unwrap())
        .collect()
}

#[test]
fn a_right_server_has_no_fault() {
    let base = serve(|_, _| {});
    let answer = look(&format!("{base}/mcp")).expect_exit(0);
    let finding = answer.json();
    assert_eq!(faults(&finding, "fault"), [""; 0]);
    assert_eq!(faults(&finding, "note"), [""; 0]);
    assert_eq!(
        finding["registration"],
        json!({"metadata_document": true, "dynamic": true, "without_secret": true})
    );
    // Clients whose makers' machines ask do not reach this one.
    assert_eq!(
        clients(&finding, true),
        ["Claude Code", "Cursor", "VS Code", "Codex", "Gemini CLI"]
    );
    assert_eq!(clients(&finding, false), ["Claude", "ChatGPT"]);
    let desk = Desk::empty();
    let told = desk.run(&["doctor", "--mcp", &format!("{base}/mcp")]);
    let told = told.expect_exit(0).out;
    for text in [
        "ok     PKCE: S256",
        "Clients find their way.",
        "│ Cursor",
        "becomes known dynamically",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    for line in told.lines() {
        assert!(crate::desk::width(line) <= 80, "{line}");
    }
}

/// Each server is wrong in one thing, and that is the one fault.
#[test]
fn each_wrong_server_is_told_from_a_right_one() {
    type Change = Box<dyn FnOnce(&str, &mut Pages)>;
    let wrong: Vec<(&str, Change)> = vec![
        (
            "challenge: a request without a token is answered 200",
            Box::new(|_, pages| pages.get_mut(CHALLENGE).unwrap().status = 200),
        ),
        (
            "challenge: a request without a token is answered 403",
            Box::new(|_, pages| pages.get_mut(CHALLENGE).unwrap().status = 403),
        ),
        (
            "challenge: it answers 401 without `WWW-Authenticate`",
            Box::new(|_, pages| pages.get_mut(CHALLENGE).unwrap().headers.clear()),
        ),
        (
            "challenge: `WWW-Authenticate` asks for something else",
            Box::new(|_, pages| {
                pages.get_mut(CHALLENGE).unwrap().headers[0].1 = "Basic realm=\"r\"".to_owned();
            }),
        ),
        (
            "challenge: what `WWW-Authenticate` names is not there",
            Box::new(|base, pages| {
                pages.get_mut(CHALLENGE).unwrap().headers[0].1 =
                    format!("Bearer resource_metadata=\"{base}/nowhere\"");
            }),
        ),
        (
            "metadata: ",
            Box::new(|base, pages| {
                // What the answer names is right; the place that the path gives is not.
                pages.remove(AT_PATH);
                pages.get_mut(CHALLENGE).unwrap().headers[0].1 =
                    format!("Bearer resource_metadata=\"{base}{AT_TOP}\"");
            }),
        ),
        (
            "metadata: `bearer_methods_supported` is without `header`",
            Box::new(|_, pages| {
                edit(pages, AT_PATH, |body| {
                    body["bearer_methods_supported"] = json!(["body"]);
                });
            }),
        ),
        (
            "resource: it is ",
            Box::new(|base, pages| {
                edit(pages, AT_PATH, |body| body["resource"] = json!(base));
            }),
        ),
        (
            "resource: it is ",
            Box::new(|base, pages| {
                edit(pages, AT_PATH, |body| {
                    body["resource"] = json!(format!("{base}/mcp/"));
                });
            }),
        ),
        (
            "issuer: the metadata name no authorization server",
            Box::new(|_, pages| {
                edit(pages, AT_PATH, |body| {
                    body["authorization_servers"] = json!([]);
                });
            }),
        ),
        (
            "issuer: ",
            Box::new(|_, pages| {
                pages.remove(ISSUER);
            }),
        ),
        (
            "issuer: ",
            Box::new(|_, pages| {
                edit(pages, ISSUER, |body| {
                    body["issuer"] = json!("https://login.example.com");
                });
            }),
        ),
        (
            "issuer: http://login.invalid/.well-known/oauth-authorization-server: it is not encrypted",
            Box::new(|_, pages| {
                edit(pages, AT_PATH, |body| {
                    body["authorization_servers"] = json!(["http://login.invalid"]);
                });
            }),
        ),
        (
            "issuer: ",
            Box::new(|_, pages| {
                let page = pages.get_mut(ISSUER).unwrap();
                page.status = 302;
                page.headers.push(("Location", "/elsewhere".to_owned()));
            }),
        ),
        (
            "issuer: ",
            Box::new(|_, pages| pages.get_mut(ISSUER).unwrap().body = "<html>".to_owned()),
        ),
        (
            "issuer: ",
            Box::new(|_, pages| pages.get_mut(ISSUER).unwrap().body = " ".repeat(300 * 1024)),
        ),
        (
            "endpoints: the issuer names no `token_endpoint`",
            Box::new(|_, pages| {
                edit(pages, ISSUER, |body| body["token_endpoint"] = Value::Null);
            }),
        ),
        (
            "endpoints: `authorization_endpoint` is not encrypted",
            Box::new(|_, pages| {
                edit(pages, ISSUER, |body| {
                    body["authorization_endpoint"] = json!("http://login.example.com/a");
                });
            }),
        ),
        (
            "PKCE: ",
            Box::new(|_, pages| {
                edit(pages, ISSUER, |body| {
                    body["code_challenge_methods_supported"] = json!(["plain"]);
                });
            }),
        ),
        (
            "code flow: `grant_types_supported`",
            Box::new(|_, pages| {
                edit(pages, ISSUER, |body| {
                    body["grant_types_supported"] = json!(["client_credentials"]);
                });
            }),
        ),
        (
            "scopes: ",
            Box::new(|_, pages| {
                edit(pages, ISSUER, |body| {
                    body["scopes_supported"] = json!(["openid"]);
                });
            }),
        ),
    ];
    for (told, change) in wrong {
        let base = serve(change);
        let answer = look(&format!("{base}/mcp")).expect_exit(1);
        let finding = answer.json();
        let found = faults(&finding, "fault");
        assert_eq!(found.len(), 1, "{told}: {found:?}");
        assert!(found[0].starts_with(told), "{told}: {found:?}");
        assert_eq!(clients(&finding, true), [""; 0], "{told}");
    }
}

/// What only some clients mind is a note, and the table says which.
#[test]
fn what_some_clients_need_is_a_note() {
    let base = serve(|_, pages| {
        pages.remove(AT_TOP);
        edit(pages, ISSUER, |body| {
            let object = body.as_object_mut().unwrap();
            object.remove("registration_endpoint");
            object.remove("client_id_metadata_document_supported");
        });
    });
    let finding = look(&format!("{base}/mcp")).expect_exit(0).json();
    let notes = faults(&finding, "note");
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("metadata at the top: "), "{notes:?}");
    assert!(notes[1].contains("by hand alone"), "{notes:?}");
    assert_eq!(clients(&finding, true), [""; 0]);
    let all = finding["clients"].as_array().unwrap();
    let cursor = all.iter().find(|client| client["client"] == "Cursor");
    let how = cursor.unwrap()["how"].as_str().unwrap();
    assert!(
        how.contains("cursor://anysphere.cursor-mcp/oauth/callback"),
        "{how}"
    );
    // By documents alone, those that have one.
    let base = serve(|_, pages| {
        edit(pages, ISSUER, |body| {
            body.as_object_mut()
                .unwrap()
                .remove("registration_endpoint");
        });
    });
    let finding = look(&format!("{base}/mcp")).expect_exit(0).json();
    assert_eq!(clients(&finding, true), ["VS Code", "Codex"]);
    // The metadata of OpenID Connect, behind the path, serve as well.
    let base = serve(|_, pages| {
        let page = pages.remove(ISSUER).unwrap();
        pages.insert("/login/.well-known/openid-configuration", page);
    });
    look(&format!("{base}/mcp")).expect_exit(0);
}

#[test]
fn a_server_that_is_not_there_or_silent_is_told() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    look(&url).fails(4, &["cannot be reached", "timeout", "help:"]);
    drop(silent);
    look(&url).fails(4, &["cannot be reached", "help:"]);
    for (url, told) in [
        ("palisade.example.com/mcp", "is no address"),
        ("https://u:p@palisade.example.com/mcp", "a name of a user"),
        ("ftp://palisade.example.com/mcp", "begins with neither"),
    ] {
        look(url).fails(2, &[told, "help:"]);
    }
    let desk = Desk::empty();
    desk.run(&["doctor"]).fails(2, &["<DATABASE>"]);
    desk.run(&["doctor", "sqlite:x.db", "--mcp", "https://a/mcp"])
        .fails(2, &["cannot be used with"]);
}

/// What a server says moves no cursor.
#[test]
fn what_a_server_says_is_shown_as_text() {
    let base = serve(|_, pages| {
        edit(pages, AT_PATH, |body| {
            body["resource"] = json!("\u{1b}[2Jhttps://x\u{202e}y");
        });
    });
    let desk = Desk::empty();
    let told = desk.run(&["doctor", "--mcp", &format!("{base}/mcp")]);
    let told = told.expect_exit(1).out;
    assert!(told.contains("\\u{1b}[2Jhttps://x\\u{202e}y"), "{told}");
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'));
}

/// Our own server, which ends with this value.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `palisade serve --http` with `[http]` of `http`, in which `URL` is the address that it will have.
fn serve_own(http: &str) -> (Desk, Own, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let url = format!("http://{address}/mcp");
    let desk = crate::http::desk(&http.replace("URL", &url));
    desk.write(
        "claims.toml",
        "[[principal]]\nclaim = \"groups\"\nvalue = \"support\"\nis = 'Agent::\"support-bot\"'\n",
    );
    let mut child = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args(["serve", "--config", "palisade.toml", "--http", &address])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let listens = lines
        .map_while(Result::ok)
        .any(|line| line.contains("serving MCP at "));
    assert!(listens);
    (desk, Own(child), url)
}

#[test]
fn our_own_server_is_right() {
    let issuer = serve(|_, _| {});
    let http = |more: &str| {
        format!(
            "[http.oauth]\nresource = \"URL\"\n{more}\n[http.oauth.issuers.login]\nissuer = \"{issuer}/login\""
        )
    };
    let (_desk, _own, url) = serve_own(&http("scopes = [\"palisade\"]"));
    let finding = look(&url).expect_exit(0).json();
    assert_eq!(faults(&finding, "note"), [""; 0]);
    assert_eq!(clients(&finding, true).len(), 5);
    // The part where nothing may be changed has metadata of its own; those at the top are of the whole.
    let finding = look(&format!("{url}/readonly")).expect_exit(0).json();
    let notes = faults(&finding, "note");
    assert!(notes[0].contains("is of another resource"), "{notes:?}");
    assert_eq!(notes.len(), 1);
    // Configured in a wrong way.
    let (_desk, _own, url) = serve_own(&http("scopes = [\"none\"]"));
    let found = faults(&look(&url).expect_exit(1).json(), "fault");
    assert!(found[0].starts_with("scopes: "), "{found:?}");
    // With tokens of its own alone clients are given one, which is no fault.
    let (_desk, _own, url) = serve_own("");
    let finding = look(&url).expect_exit(0).json();
    assert_eq!(faults(&finding, "fault"), [""; 0]);
    let found = faults(&finding, "note");
    assert!(
        found[1].starts_with("metadata: the server takes access tokens of its own alone"),
        "{found:?}"
    );
    assert_eq!(clients(&finding, true), [""; 0]);
    let all = finding["clients"].as_array().unwrap();
    let cursor = all.iter().find(|client| client["client"] == "Cursor");
    let how = cursor.unwrap()["how"].as_str().unwrap();
    assert!(how.contains("access token: `headers`"), "{how}");
}
