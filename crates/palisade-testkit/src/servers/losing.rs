//! A connection that is lost at the worst moment.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
};

use super::error::ServerError;

const HOST: &str = "127.0.0.1";

/// Stands before a server and passes everything on, until a client sends certain bytes: these the server still
/// gets and answers, and the client loses its connection instead of hearing that. It stands as long as the process.
#[derive(Debug)]
pub struct LosingProxy {
    port: u16,
}

impl LosingProxy {
    /// Before the server at `port` of this machine; `last` are the bytes after which nothing is heard.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(port: u16, last: &'static [u8]) -> Result<Self, ServerError> {
        let system = |why: std::io::Error| ServerError::system("listen on", HOST.as_ref(), &why);
        let listener = TcpListener::bind((HOST, 0)).map_err(system)?;
        let own = listener.local_addr().map_err(system)?.port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // One that cannot be passed on is closed, as it is by a server that is not there.
                let _ =
                    TcpStream::connect((HOST, port)).and_then(|server| pass(client, server, last));
            }
        });
        Ok(Self { port: own })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn pass(client: TcpStream, server: TcpStream, last: &'static [u8]) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asks, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let (mut answers, mut to_client) = (server, client);
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = asks.read(&mut buffer) {
            let Some(sent) = buffer.get(..count) else {
                break;
            };
            let is_last = sent.windows(last.len()).any(|bytes| bytes == last);
            if is_last {
                // From now on, what the server says goes nowhere.
                let _ = asks.shutdown(Shutdown::Write);
            }
            if to_server.write_all(sent).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = answers.read(&mut buffer) {
            let Some(sent) = buffer.get(..count) else {
                break;
            };
            if to_client.write_all(sent).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(())
}
