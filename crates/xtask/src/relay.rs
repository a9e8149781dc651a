//! What a relay and the broker add to a call of `palisade serve`, and the relay's memory.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use crate::run::Result;

/// Calls of each kind, after a tenth as many that do not count.
const CALLS: usize = 5000;

const CONFIGURATION: &str = "policies = \"demo-policies\"
[broker]
principal = 'Agent::\"support-bot\"'
[connections.demo]
url = \"sqlite:demo.db\"
";

/// Prints both, for the program `binary` and the demonstration in `demo`.
pub(crate) fn measure(binary: &Path, demo: &Path) -> Result {
    let start = |arguments: &[&str]| Process::start(binary, demo, arguments);
    let _broker = start_broker(binary, demo, CONFIGURATION)?;
    let mut relay = start(&["relay", "--run", "broker/run", "--secret", "broker/secret"])?;
    let serve = [
        "serve",
        "sqlite:demo.db",
        "--policies",
        "demo-policies",
        "--as",
        "Agent::\"support-bot\"",
    ];
    let mut direct = start(&serve)?;
    relay.begin()?;
    direct.begin()?;
    println!();
    for (name, params) in [
        ("ping", r#""method":"ping""#),
        (
            "query",
            r#""method":"tools/call","params":{"name":"query","arguments":{"sql":"SELECT id FROM tickets WHERE id = 1"}}"#,
        ),
    ] {
        let (mut by_relay, mut by_serve) = (Vec::new(), Vec::new());
        for number in 0..CALLS + CALLS / 10 {
            // One after the other, so that both meet the machine in the same mood.
            let pair = (relay.time(params)?, direct.time(params)?);
            if number >= CALLS / 10 {
                by_relay.push(pair.0);
                by_serve.push(pair.1);
            }
        }
        let (relayed, served) = (median(&mut by_relay), median(&mut by_serve));
        println!(
            "{name}: {served:.0} µs by serve, {relayed:.0} µs by relay and broker: {:.0} µs more (medians of {CALLS})",
            relayed - served
        );
    }
    let (alone, pumped) = measure_floor(demo)?;
    println!(
        "a bare line: {alone:.0} µs to a process and back, {pumped:.0} µs by a bare pump between: {:.0} µs more, which no relay can do without",
        pumped - alone
    );
    let (all, own) = (relay.kilobytes("VmHWM:")?, relay.kilobytes("RssAnon:")?);
    println!("relay: {all} kB resident at most, {own} kB of them its own");
    Ok(())
}

/// The task by which this program gives every line back.
pub(crate) const ECHO: &str = "echo-lines";

/// The task by which this program copies bytes to such a process and back, as a relay does, and looks at none.
pub(crate) const PUMP: &str = "pump-lines";

/// What a line takes to a process and back, and with a pump between: what the system itself takes to wake one process more, twice.
fn measure_floor(folder: &Path) -> Result<(f64, f64)> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut echo = Process::start(&this, folder, &[ECHO])?;
    let mut pump = Process::start(&this, folder, &[PUMP])?;
    let line = "x".repeat(80);
    let (mut alone, mut pumped) = (Vec::new(), Vec::new());
    for number in 0..CALLS + CALLS / 10 {
        let mut times = [Duration::ZERO; 2];
        for (process, time) in [&mut echo, &mut pump].into_iter().zip(&mut times) {
            let began = Instant::now();
            process.ask(&line)?;
            *time = began.elapsed();
        }
        if number >= CALLS / 10 {
            let [first, second] = times;
            alone.push(first);
            pumped.push(second);
        }
    }
    Ok((median(&mut alone), median(&mut pumped)))
}

/// Gives every line of its input back, until that ends.
pub(crate) fn echo_lines() -> Result {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let written = line.and_then(|line| output.write_all(format!("{line}\n").as_bytes()));
        let flushed = written.and_then(|()| output.flush());
        flushed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Copies bytes to a process that echoes them, by a socket, and back, each direction on a thread of its own.
pub(crate) fn pump_lines() -> Result {
    let fault = |error: std::io::Error| error.to_string();
    let this = std::env::current_exe().map_err(fault)?;
    let (near, far) = UnixStream::pair().map_err(fault)?;
    let end = |stream: &UnixStream| stream.try_clone().map(OwnedFd::from).map(Stdio::from);
    let mut echo = Command::new(this)
        .arg(ECHO)
        .stdin(end(&far).map_err(fault)?)
        .stdout(end(&far).map_err(fault)?)
        .spawn()
        .map_err(fault)?;
    drop(far);
    let up = near.try_clone().map_err(fault)?;
    let copying = std::thread::spawn(move || {
        let copied = copy_reads(std::io::stdin(), &up);
        // The process sees the end of its input.
        copied.and_then(|()| up.shutdown(Shutdown::Write))
    });
    copy_reads(&near, std::io::stdout()).map_err(fault)?;
    echo.wait().map_err(fault)?;
    copying.join().map_err(|_| "the pump broke")?.map_err(fault)
}

fn copy_reads(mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    let mut bytes = [0; 8192];
    loop {
        let count = from.read(&mut bytes)?;
        let Some(read) = bytes.get(..count).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        to.write_all(read)?;
        to.flush()?;
    }
}

/// A broker with a configuration in `folder`, which listens by now.
pub(crate) fn start_broker(binary: &Path, folder: &Path, configuration: &str) -> Result<Process> {
    std::fs::write(folder.join("palisade.toml"), configuration)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let broker = Process::start(binary, folder, &["broker", "--config", "palisade.toml"])?;
    let socket = folder.join("broker/run/palisade.sock");
    let began = Instant::now();
    while !socket.exists() {
        if began.elapsed() > Duration::from_secs(30) {
            return Err("the broker does not listen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(broker)
}

/// The median, in microseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    middle.as_secs_f64() * 1e6
}

/// A program that is spoken to by lines; it ends with this value.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(binary: &Path, folder: &Path, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        Ok(Self {
            input: child.stdin.take().ok_or("no stdin")?,
            output: BufReader::new(child.stdout.take().ok_or("no stdout")?),
            child,
        })
    }

    fn send(&mut self, line: &str) -> Result {
        writeln!(self.input, "{line}").map_err(|error| error.to_string())
    }

    fn ask(&mut self, line: &str) -> Result<String> {
        self.send(line)?;
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer);
        match read.map_err(|error| error.to_string())? {
            0 => Err("the program closed its output".to_owned()),
            _ => Ok(answer),
        }
    }

    fn begin(&mut self) -> Result {
        self.ask(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"measure","version":"0"}}}"#)?;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }

    fn time(&mut self, params: &str) -> Result<Duration> {
        let began = Instant::now();
        let answer = self.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,{params}}}"#))?;
        let time = began.elapsed();
        if !answer.contains("\"result\"") || answer.contains("\"isError\":true") {
            return Err(format!("not an answer: {answer}"));
        }
        Ok(time)
    }

    fn kilobytes(&self, key: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("no {key}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
