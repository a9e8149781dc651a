//! A connection over which calls are asked one after the other.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use crate::server::Server;

/// After this, a call has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A kept connection to a server.
pub(crate) struct Connection<'s> {
    server: &'s Server,
    stream: BufReader<TcpStream>,
    id: u64,
}

impl<'s> Connection<'s> {
    pub(crate) fn open(server: &'s Server) -> Self {
        Self {
            server,
            stream: connect(server),
            id: 0,
        }
    }

    /// Whether the answer to `sql` holds `expected`.
    pub(crate) fn ask(&mut self, sql: &str, expected: &str) -> bool {
        self.id += 1;
        let body = json!({
            "jsonrpc": "2.0", "id": self.id, "method": "tools/call",
            "params": {"name": self.server.tool, "arguments": {"sql": sql}},
        })
        .to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2025-06-18\r\n{}Content-Length: {}\r\n\r\n",
            self.server.address,
            self.server.header,
            body.len()
        );
        match self.exchange(&(head + &body)) {
            Some(answer) => answer.contains(expected) && !answer.contains("\"isError\":true"),
            None => {
                self.stream = connect(self.server);
                false
            }
        }
    }

    /// Sends a request, and reads its answer to the end.
    fn exchange(&mut self, request: &str) -> Option<String> {
        self.stream.get_mut().write_all(request.as_bytes()).ok()?;
        let (mut length, mut is_chunked) = (None, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse().ok()?);
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
        let mut body = Vec::new();
        if !is_chunked {
            self.read(length?, &mut body)?;
            return String::from_utf8(body).ok();
        }
        loop {
            let size = usize::from_str_radix(self.line()?.trim(), 16).ok()?;
            self.read(size, &mut body)?;
            // What ends each of them.
            self.line()?;
            if size == 0 {
                return String::from_utf8(body).ok();
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    fn read(&mut self, bytes: usize, body: &mut Vec<u8>) -> Option<()> {
        let start = body.len();
        body.resize(start + bytes, 0);
        self.stream.read_exact(&mut body[start..]).ok()
    }
}

fn connect(server: &Server) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}
