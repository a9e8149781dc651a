//! Programs of a person's desk that tests drive: a browser, an editor and a solver. They are not everywhere, so that a test over
//! them has `chromium`, `neovim` or `cvc5` in its name and is optional, as one over [a second server](crate::servers) is.

#![expect(
    clippy::indexing_slicing,
    reason = "what JSON does not have is null in it"
)]

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers::{ServerError, libraries, tools};

/// How long a browser may take for an answer on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Chromium, without a window: each page is looked at as a person's browser shows it.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    input: File,
    messages: Receiver<Value>,
    /// What came and was not asked for.
    kept: Vec<Value>,
    session: String,
    next: u64,
    _home: TempDir,
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Pixels.
    pub width: u32,
    /// Whether the person prefers dark pages.
    pub is_dark: bool,
}

/// What a page did while it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageVisit {
    /// Errors and messages of the console, and windows that it opened.
    pub problems: Vec<String>,
    /// The addresses it asked for, its own aside.
    pub requests: Vec<String>,
}

/// Neovim, that is its program with the files it needs.
///
/// # Errors
/// If it is not there.
pub fn find_neovim() -> Result<Command, ServerError> {
    let root = tools().join("neovim");
    let fetched = root.join("usr/bin/nvim");
    if fetched.is_file() {
        let mut command = Command::new(fetched);
        command.env("VIMRUNTIME", root.join("usr/share/nvim/runtime"));
        let modules = libraries(&root).join("lua/5.1/?.so");
        command.env("LUA_CPATH", modules);
        return Ok(command);
    }
    Err(ServerError::Missing {
        name: "Neovim 0.11",
        command: "cargo xtask servers",
    })
}

/// The solver cvc5, installed or fetched, and where its libraries are if it was fetched.
///
/// # Errors
/// If it is not there.
pub fn find_cvc5() -> Result<(PathBuf, Option<PathBuf>), ServerError> {
    let root = tools().join("cvc5");
    let places = [
        (PathBuf::from("/usr/bin/cvc5"), None),
        (root.join("usr/bin/cvc5"), Some(libraries(&root))),
    ];
    let mut places = places.into_iter();
    places
        .find(|(place, _)| place.is_file())
        .ok_or(ServerError::Missing {
            name: "cvc5",
            command: "cargo xtask servers",
        })
}

/// Chromium, installed or fetched.
fn find_chromium() -> Result<(PathBuf, Option<PathBuf>), ServerError> {
    let root = tools().join("chromium");
    let places = [
        (PathBuf::from("/usr/lib/chromium/chromium"), None),
        (
            root.join("usr/lib/chromium/chromium"),
            Some(libraries(&root)),
        ),
    ];
    let mut places = places.into_iter();
    places
        .find(|(place, _)| place.is_file())
        .ok_or(ServerError::Missing {
            name: "Chromium",
            command: "cargo xtask servers",
        })
}

impl Browser {
    /// Starts one with nothing open.
    ///
    /// # Errors
    /// If it is not there, or does not start.
    pub fn start() -> Result<Self, ServerError> {
        let (program, libraries) = find_chromium()?;
        let fault = |why: &std::io::Error| ServerError::System {
            what: format!("starting `{}`", program.display()),
            why: why.to_string(),
        };
        let home = TempDir::new().map_err(|why| fault(&why))?;
        let pipes = ["in", "out"].map(|name| home.path().join(name));
        let [input, output] = &pipes;
        let made = Command::new("mkfifo").args(&pipes).status();
        made.map_err(|why| fault(&why))?;
        // It reads commands from descriptor 3 and answers on 4.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec 3<\"$1\" 4>\"$2\"; shift 2; exec \"$@\"", "sh"])
            .args(&pipes)
            .arg(&program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--no-first-run",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-dev-shm-usage",
            ])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(libraries) = libraries {
            let sound = libraries.join("pulseaudio");
            let path = format!("{}:{}", libraries.display(), sound.display());
            command.env("LD_LIBRARY_PATH", path);
        }
        let child = command.spawn().map_err(|why| fault(&why))?;
        let input = OpenOptions::new().write(true).open(input);
        let input = input.map_err(|why| fault(&why))?;
        let output = BufReader::new(File::open(output).map_err(|why| fault(&why))?);
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            kept: Vec::new(),
            session: String::new(),
            next: 0,
            _home: home,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", attach)?;
        let session = attached["sessionId"].as_str();
        browser.session = session.unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Opens a page of this machine.
    ///
    /// # Errors
    /// If the browser does not answer.
    pub fn open(&mut self, page: &Path, view: View) -> Result<PageVisit, ServerError> {
        let View { width, is_dark } = view;
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", metrics)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}))?;
        self.kept.clear();
        let url = format!("file://{}", page.display());
        let told = self.ask("Page.navigate", json!({"url": url}))?;
        let mut visit = PageVisit::default();
        if let Some(why) = told["errorText"].as_str() {
            visit.problems.push(why.to_owned());
            return Ok(visit);
        }
        let begun = Instant::now();
        let mut is_loaded = false;
        let mut seen = 0;
        while !is_loaded {
            if seen == self.kept.len() {
                let message = self.receive(begun)?;
                self.kept.push(message);
            }
            let message = self.kept.get(seen).cloned().unwrap_or_default();
            seen += 1;
            is_loaded = message["method"] == "Page.loadEventFired";
            self.note(&message, &url, &mut visit)?;
        }
        // What a script would do once the page is there.
        self.evaluate("new Promise(done => setTimeout(done, 100)).then(() => 1)")?;
        for message in std::mem::take(&mut self.kept).into_iter().skip(seen) {
            self.note(&message, &url, &mut visit)?;
        }
        Ok(visit)
    }

    /// What an expression of JavaScript gives on the page.
    ///
    /// # Errors
    /// If it fails, or the browser does not answer.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value, ServerError> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let told = self.ask("Runtime.evaluate", params)?;
        match told.get("exceptionDetails") {
            None => Ok(told["result"]["value"].clone()),
            Some(why) => Err(fail(expression, why)),
        }
    }

    fn note(
        &mut self,
        message: &Value,
        url: &str,
        visit: &mut PageVisit,
    ) -> Result<(), ServerError> {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded") => {
                visit.problems.push(params.to_string());
            }
            Some("Page.javascriptDialogOpening") => {
                visit.problems.push(params.to_string());
                self.ask("Page.handleJavaScriptDialog", json!({"accept": false}))?;
            }
            Some("Network.requestWillBeSent") => {
                let asked = params["request"]["url"].as_str().unwrap_or_default();
                if asked != url {
                    visit.requests.push(asked.to_owned());
                }
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, ServerError> {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let sent = self.input.write_all(format!("{message}\0").as_bytes());
        sent.map_err(|why| fail(method, &json!(why.to_string())))?;
        let begun = Instant::now();
        loop {
            let message = self.receive(begun)?;
            if message["id"] != id {
                self.kept.push(message);
                continue;
            }
            return match message.get("error") {
                None => Ok(message["result"].clone()),
                Some(why) => Err(fail(method, why)),
            };
        }
    }

    fn receive(&mut self, begun: Instant) -> Result<Value, ServerError> {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        let received = self.messages.recv_timeout(left);
        received.map_err(|_| ServerError::Silent {
            name: "Chromium".to_owned(),
            after: begun.elapsed(),
            log: String::new(),
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fail(what: &str, why: &Value) -> ServerError {
    ServerError::System {
        what: what.to_owned(),
        why: why.to_string(),
    }
}
